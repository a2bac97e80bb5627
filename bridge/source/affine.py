"""Shows for indices that are sums of counters which threads and iterations use different elements."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Counter:
    """A variable with the values 0, 1, ..., such as the number of a thread. Each object is another variable.

    Attributes:
        extent: How many values it has; None if that is not known.
        step: What it counts: the variable of a loop goes on by this number.
    """

    extent: int | None = None
    step: int = 1

    @property
    def varies(self) -> bool:
        """Whether it can have two values."""
        return self.extent != 1


@dataclass(frozen=True)
class Affine:
    """A constant plus a sum of counters, each times an integer that is not 0.

    Attributes:
        constant: The constant.
        terms: The counters and their factors.
    """

    constant: int = 0
    terms: frozenset[tuple[Counter, int]] = frozenset()

    @classmethod
    def of(cls, counter: Counter, factor: int = 1) -> Affine:
        """One counter, times a factor."""
        return cls(0, frozenset({(counter, factor)}))

    def __add__(self, other: Affine) -> Affine:
        factors = dict(self.terms)
        for counter, factor in other.terms:
            factors[counter] = factors.get(counter, 0) + factor
        return Affine(self.constant + other.constant, frozenset((c, f) for c, f in factors.items() if f))

    def times(self, factor: int) -> Affine:
        """This sum times an integer."""
        return Affine(self.constant * factor, frozenset((c, f * factor) for c, f in self.terms if factor))

    @property
    def value(self) -> int | None:
        """The number, if there are no counters."""
        return None if self.terms else self.constant

    @property
    def is_natural(self) -> bool:
        """Whether it is never negative, and grows with each counter."""
        return self.constant >= 0 and all(factor > 0 for _, factor in self.terms)


@dataclass(frozen=True)
class Access:
    """One read or write of an element of an array, by each thread and in each iteration that comes there.

    Attributes:
        array: Number of the array.
        index: Its index in each dimension; None for an index that is not known.
        loops: The counters of the loops around it, from the outside.
    """

    array: int
    index: tuple[Affine | None, ...]
    loops: tuple[Counter, ...]


def are_apart(accesses: Collection[Access], threads: Sequence[Counter]) -> bool:
    """Whether different threads, and different iterations of a loop, always use different elements.

    The arrays have one shape, so that indices can be compared. The elements that a thread uses begin at a place that
    depends on the thread alone. They go on in multiples of a stride, up to a span. So the index is a sum of counters:
    the counters of the threads, and one more for the place within the elements of the thread. Such a sum differs for
    different values of its counters if, in the order of the factors, each factor is larger than all that the terms
    before it can add up to (as in a number with mixed radices). The same argument with the counters of the loops,
    within a thread, separates iterations.

    Args:
        accesses: The accesses. Loops that begin with the same counter are one loop.
        threads: The counters of the threads.
    """
    ranks = {len(access.index) for access in accesses}
    if len(ranks) != 1 or not all(axis is not None and axis.is_natural for access in accesses for axis in access.index):
        return False
    if not all(_counters(access) <= {*threads, *access.loops} for access in accesses):
        return False  # the value of another counter may depend on the data
    axes = [
        [(axis, access.loops) for access in accesses if (axis := access.index[number]) is not None]
        for number in range(ranks.pop())
    ]
    if not all(_each_in_one(threads, access) and _each_in_one(access.loops, access) for access in accesses):
        return False
    if not all(_threads_apart([axis for axis, _ in each], set(threads)) for each in axes):
        return False
    groups: dict[Counter | None, list[Access]] = {}
    for access in accesses:
        groups.setdefault(access.loops[0] if access.loops else None, []).append(access)
    return all(_iterations_apart(group) for group in groups.values())


def _counters(access: Access) -> set[Counter]:
    return {counter for axis in access.index if axis is not None for counter, _ in axis.terms}


def _each_in_one(counters: Iterable[Counter], access: Access) -> bool:
    """Whether each counter that varies is in the index of exactly one dimension."""
    return all(
        sum(counter in dict(axis.terms) for axis in access.index if axis is not None) == 1
        for counter in counters
        if counter.varies
    )


def _threads_apart(axis: Sequence[Affine], threads: Collection[Counter]) -> bool:
    """Whether threads whose counters differ in this dimension have different elements."""
    own = {frozenset((c, f) for c, f in each.terms if c in threads and c.varies) for each in axis}
    if len(own) != 1:
        return False
    first = min(each.constant for each in axis)
    inner = [[(f, c.extent) for c, f in each.terms if c not in threads and c.varies] for each in axis]
    stride = math.gcd(*(each.constant - first for each in axis), *(factor for terms in inner for factor, _ in terms))
    spans = [_span(each.constant - first, terms) for each, terms in zip(axis, inner, strict=True)]
    span = None if None in spans else max(each for each in spans if each is not None)
    return _is_mixed_radix([*((f, c.extent) for c, f in own.pop()), *_within(stride, span)])


def _iterations_apart(group: Sequence[Access]) -> bool:
    """Whether the iterations of one loop, and of the loops in it, have different elements."""
    loops = group[0].loops
    if any(access.loops != loops for access in group):
        return False
    for each in zip(*(access.index for access in group), strict=True):
        axis = [one for one in each if one is not None]
        terms = {frozenset((c, f) for c, f in one.terms if c in loops and c.varies) for one in axis}
        first = min(one.constant for one in axis)
        offsets = [one.constant - first for one in axis]
        if len(terms) != 1:
            return False
        factors = [(f, c.extent) for c, f in terms.pop()]
        if factors and not _is_mixed_radix([*factors, *_within(math.gcd(*offsets), max(offsets))]):
            return False
    return True


def _span(constant: int, terms: Iterable[tuple[int, int | None]]) -> int | None:
    for factor, extent in terms:
        if extent is None:
            return None
        constant += factor * max(extent - 1, 0)
    return constant


def _within(stride: int, span: int | None) -> list[tuple[int, int | None]]:
    """The counter of the multiples of a stride, up to a span."""
    return [(stride, None if span is None else span // stride + 1)] if stride else []


def _is_mixed_radix(terms: Iterable[tuple[int, int | None]]) -> bool:
    """Whether factors times counters below extents add up to a different number for different counters."""
    reach: float = 0
    for factor, extent in sorted(terms, key=lambda term: term[0]):
        if factor <= reach:
            return False
        reach = math.inf if extent is None else reach + factor * max(extent - 1, 0)
    return True
