"""Defines the values that stand for the numbers and arrays of a kernel, and the rules by which they are combined.

An index is a sum of counters (see :mod:`bridge.source.affine`). Of other numbers it is only known which elements they
are computed from. Numbers have a limited width. A sum that a kernel computes with fewer digits than it needs still has
the right last digits, so only the final index has to be small enough.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge.source.affine import Affine, Counter


class Unclear(Exception):
    """The source does something with an array, or with an index, that is not understood."""


@dataclass(frozen=True)
class Array:
    """A parameter of the kernel, by its number."""

    number: int


@dataclass(frozen=True)
class Size:
    """An extent of an array; the number of its elements if there is no axis."""

    array: int
    axis: int | None = None


@dataclass(frozen=True)
class Shape:
    """All extents of an array."""

    array: int


@dataclass(frozen=True)
class AtMost:
    """A number that is not above an index.

    Attributes:
        index: The index.
        reads: As for :class:`Unknown`.
    """

    index: Affine
    reads: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Below:
    """The condition that an index is below a size, or below a number that has a limit."""

    index: Affine
    size: Size | AtMost


@dataclass(frozen=True, eq=False)
class Object:
    """A Python object that the source names, or the name of one that exists only for the compiler."""

    value: Any


@dataclass(frozen=True)
class Unknown:
    """A value that is no array.

    Attributes:
        reads: Reads of elements without which the value cannot be computed, by number.
    """

    reads: frozenset[int] = frozenset()


UNKNOWN = Unknown()
_CAST_NAMES = frozenset({"int64", "uint64", "intp", "uintp"})
"""Types that hold every index, so that they do not change it."""


def holds_array(value: Any) -> bool:
    """Whether a value is an array, or a tuple with one."""
    return isinstance(value, Array) or (isinstance(value, tuple) and any(map(holds_array, value)))


def joined(one: Any, other: Any) -> Any:
    """The value of a name after two branches."""
    if one is other or (type(one) is type(other) and one == other):
        return one
    if holds_array(one) or holds_array(other):
        raise Unclear
    return Unknown(reads_of(one) & reads_of(other))


def reads_of(value: Any) -> frozenset[int]:
    """The reads of elements without which a value cannot be computed."""
    return value.reads if isinstance(value, Unknown | AtMost) else frozenset()


def scalar(*values: Any) -> Unknown:
    """An unknown value that is made of others; arithmetic with whole arrays is not understood."""
    if any(map(holds_array, values)):
        raise Unclear
    return Unknown(frozenset().union(*map(reads_of, values))) if values else UNKNOWN


def constant(value: Any) -> Any:
    """A value from outside the function, which the compiler takes for constant."""
    return Affine(value) if type(value) is int else Object(value)


def combined(op: ast.operator, one: Any, other: Any) -> Any:
    """The result of an operator."""
    if isinstance(one, Affine) and isinstance(other, Affine):
        if isinstance(op, ast.Add):
            return one + other
        if isinstance(op, ast.Sub):
            return one + other.times(-1)
        if isinstance(op, ast.Mult) and (factor := other.value) is not None:
            return one.times(factor)
        if isinstance(op, ast.Mult) and (factor := one.value) is not None:
            return other.times(factor)
    return scalar(one, other)


def is_exact(value: Any, largest: int) -> bool:
    """Whether a value is an index that the kernel computes without an overflow, also as an unsigned number.

    The variable of a loop of unknown length has no overflow itself, and is taken to be below the root of the largest
    number where it is multiplied.
    """
    if not isinstance(value, Affine) or not value.is_natural:
        return False
    root = math.isqrt(largest)
    reach = value.constant
    for counter, factor in value.terms:
        if counter.extent is not None:
            reach += factor * max(counter.extent - 1, 0)
        elif factor != counter.step and not (counter.step <= root and factor <= root * counter.step):
            return False
    return reach <= largest


def is_cast(target: Any) -> bool:
    """Whether a function returns an index that it gets as it is."""
    return target is int or (
        getattr(target, "__module__", None) == "numpy" and getattr(target, "__name__", None) in _CAST_NAMES
    )


def is_range(target: Any) -> bool:
    """Whether a function is ``range``, or Numba's ``prange``."""
    is_prange = getattr(target, "__name__", None) == "prange" and str(target.__module__).startswith("numba.")
    return target is range or is_prange


def counted(arguments: Sequence[Any], largest: int) -> tuple[Counter, Any]:
    """The counter of a loop over a range, and the variable of the loop."""
    if not 1 <= len(arguments) <= 3:
        return Counter(), UNKNOWN
    first = arguments[0] if len(arguments) > 1 else Affine()
    last = arguments[min(1, len(arguments) - 1)]
    step = arguments[2].value if len(arguments) > 2 and isinstance(arguments[2], Affine) else 1
    if (len(arguments) > 2 and not isinstance(arguments[2], Affine)) or not isinstance(first, Affine):
        return Counter(), UNKNOWN
    if step is None or step <= 0:
        return Counter(), UNKNOWN
    extent = None
    if (
        is_exact(first, largest)
        and is_exact(last, largest)
        and (distance := (last + first.times(-1)).value) is not None
    ):
        extent = max(0, -(-distance // step))
    counter = Counter(extent, step)
    return counter, first + Affine.of(counter, step)
