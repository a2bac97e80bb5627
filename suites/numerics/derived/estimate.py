"""Holds a true value with a bound on the error of any reasonable kernel, for :mod:`suites.numerics.derived.reference`.

The bound must hold for every order of sums and products, because a bound belongs to a function and not to one way to
compute it. An estimate therefore has two errors:

- ``own``, by running error analysis in the order of the reference (Higham, Accuracy and Stability of Numerical
  Algorithms, 2nd ed., section 3.3): the effect of the operands' errors, with the largest slope within their bounds, and
  the rounding of the operation itself.
- the error that another order adds. Let ``S`` be the result of the same additions and multiplications with absolute
  values, and n their number. In any other order a term passes through at most n of them. Each partial result is at most
  ``S``, and the last one is the result itself, so the others add ``(n - 1) u S`` (Higham, section 4.2), or
  ``4 sqrt(n - 1) u S`` by chance. Where no order rounds anything (:mod:`suites.numerics.quanta`), there is no error.

``S`` belongs to additions, subtractions, multiplications and divisions by a number. Any other function ends it: no
kernel moves terms through an exponential. A product ``x y`` has ``S = S_x |y| + |x| S_y - |x y|``. That allows for
``a x + b x`` in place of ``(a + b) x``, but not for ``mean(x**2) - mean(x)**2`` in place of ``mean((x - mean(x))**2)``.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.error_model import DEVIATIONS, WIDE, finfo, significand_bits
from suites.numerics.precision import FLOAT8
from suites.numerics.quanta import elementwise, nothing_rounded


class Underivable(Exception):
    """No bound can be derived. The message continues a sentence that ends with "because"."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """The true value of an intermediate result, and a bound on the error of a kernel.

    Attributes:
        value: Truth: floats in the wide type of their dtype, everything else in its own dtype.
        own: Bound of the absolute error in the order of the reference, in the shape of ``value``; None if every kernel
            has exactly this value. Computed without using ``exact``. An infinite bound means that the value is unknown;
            a kernel's value may then be infinite or NaN too.
        dtype: The dtype of this result in a kernel.
        size: ``S``; None if it is the magnitude of ``value``. It is infinite where an intermediate result may overflow.
        quanta: Powers of two that divide all terms; None for the quanta of ``value``.
        steps: The additions and multiplications since the last other function. A bit set: bit i is set if operation i
            contributes, however often.
        exact: True where no order rounds anything; None if these are the elements whose ``own`` is zero.
        reach: The smallest and the largest magnitude that a partial product may have; None if it has no product, or
            only moderate ones.
        formulas_agree: True where all usual formulas of a quotient give exactly this value; None if nowhere. A function
            that jumps here has one right value then, although a GPU may round the quotient.
        summed: Whether it is a sum along axes.
    """

    value: Array
    own: Array | None
    dtype: np.dtype[Any]
    size: Array | None = None
    quanta: Any = None
    steps: int = 0
    exact: Any = None
    reach: tuple[Array, Array] | None = None
    formulas_agree: Any = None
    summed: bool = False

    @functools.cached_property
    def error(self) -> Array | None:
        """Bound of the absolute error in any order; None if every kernel has exactly this value."""
        loose = self.loose
        if loose is None or self.exact is None or not np.any(self.is_exact):
            return loose
        return None if np.all(self.is_exact) else np.where(self.is_exact, 0, loose)

    @functools.cached_property
    def loose(self) -> Array | None:
        """Bound of the absolute error in any order, also for kernels that first multiply all terms by a number."""
        others = self.steps.bit_count() - 1
        if others < 1 or not self.is_float:
            return self.own
        info = finfo(self.dtype)
        with np.errstate(all="ignore"):
            sizes = self.sizes
            step = np.maximum(unit(self.dtype) * np.minimum(sizes, float(info.max)), float(info.tiny))
            nothing = ~np.isfinite(self.value) | (sizes == 0)
            added = np.where(nothing, 0, min(others, DEVIATIONS * math.sqrt(others)) * step)
            return np.asarray(added if self.own is None else self.own + added)

    @property
    def errors(self) -> Array:
        """The error as an array; read-only zeros if it is None."""
        return self._zeros() if self.error is None else self.error

    @property
    def doubt(self) -> Array:
        """The error that decides on which side of a threshold the result is."""
        return self.errors if self.formulas_agree is None else np.where(self.formulas_agree, 0, self.errors)

    @property
    def owns(self) -> Array:
        """The error in the order of the reference as an array; read-only zeros if it is None."""
        return self._zeros() if self.own is None else self.own

    def _zeros(self) -> Array:
        return np.broadcast_to(np.zeros((), self.value.real.dtype if self.is_float else np.float64), self.value.shape)

    @property
    def sizes(self) -> Array:
        """``S`` as an array."""
        return np.asarray(np.abs(self.value)) if self.size is None else self.size

    @functools.cached_property
    def terms_quanta(self) -> Any:
        """The quanta as an array, or zero if every element has been rounded."""
        if not np.any(self.is_exact):
            return 0.0
        return elementwise(self.value) if self.quanta is None else self.quanta

    @property
    def is_exact(self) -> Any:
        """True where no order rounds anything."""
        if self.exact is not None:
            return self.exact
        return True if self.own is None else self.own == 0

    @property
    def is_extreme(self) -> bool:
        """Whether the product of a few such numbers may overflow or underflow in some order."""
        info, size = finfo(self.dtype), np.abs(self.value)
        return bool(np.any((size > float(info.max) ** 0.125) | (size < float(info.tiny) ** 0.125) & (size > 0)))

    @property
    def factors(self) -> tuple[Array, Array]:
        """The ``reach``; without one, that of this number as a factor: at most 1, and at least 1."""
        size = np.abs(self.value)
        return self.reach or (np.where(size > 0, np.minimum(size, 1), 1), np.maximum(size, 1))

    @property
    def overflows(self) -> Array | None:
        """True where an intermediate result or this one may overflow in a kernel; None if nowhere."""
        if not self.is_float or not self.value.size:
            return None
        with np.errstate(all="ignore"):
            mask = np.abs(self.value) > float(finfo(self.dtype).max)
            if self.size is not None:
                mask = mask | np.isinf(self.size)
            mask = mask & np.isfinite(self.value)
        return mask if mask.any() else None

    @property
    def is_float(self) -> bool:
        """Whether its dtype is a float, real or complex."""
        return self.dtype in WIDE

    def moved(self, move: Callable[[Array], Any]) -> Estimate:
        """Returns the estimate after ``move``, a function that only moves the elements of an array."""

        def each(array: Any) -> Any:
            return array if array is None or isinstance(array, bool | float) else move(array)

        value = np.asarray(move(self.value))
        # Finding quanta takes long, so do it before a broadcast.
        quanta = self.terms_quanta if value.size > self.value.size and self.is_float else self.quanta
        return Estimate(
            value,
            None if self.own is None else move(self.own),
            self.dtype,
            None if self.size is None else move(self.size),
            each(quanta),
            self.steps,
            each(self.is_exact) if self.steps else None,
            None if self.reach is None else (move(self.reach[0]), move(self.reach[1])),
            each(self.formulas_agree),
            self.summed,
        )

    def ended(self) -> Estimate:
        """Returns the estimate as the operand of a function that ends ``S``: its own error is that of all orders."""
        overflows = self.overflows
        size = None if overflows is None else np.where(overflows, np.inf, np.abs(self.value))
        return Estimate(self.value, self.error, self.dtype, size)


_numbers = itertools.count()


def number_steps() -> None:
    """Numbers the steps of a reference from zero, so that few bits hold them."""
    global _numbers
    _numbers = itertools.count()


def joined(sources: Sequence[Estimate], join: Callable[[list[Array]], Any]) -> Estimate:
    """Returns the estimate of a result that ``join`` assembles from the elements of several sources."""

    def each(arrays: list[Any]) -> Array:
        shaped = [np.broadcast_to(array, source.value.shape) for array, source in zip(arrays, sources, strict=True)]
        return np.asarray(join(shaped))

    steps = steps_of(sources, new=0)
    return Estimate(
        each([source.value for source in sources]),
        None if all(source.own is None for source in sources) else each([source.owns for source in sources]),
        sources[0].dtype,
        None if all(source.size is None for source in sources) else each([source.sizes for source in sources]),
        each([source.terms_quanta for source in sources]) if steps else None,
        steps,
        each([source.is_exact for source in sources]) if steps else None,
    )


def steps_of(operands: Sequence[Estimate], new: int = 1) -> int:
    """Returns the steps of these operands, and ``new`` steps for an operation on them."""
    own = [1 << next(_numbers) for _ in range(new)]
    return functools.reduce(operator.or_, [*own, *(each.steps for each in operands)], 0)


def of_input(array: Array) -> Estimate:
    """Returns the estimate of an input. It is exact, except that a subnormal number may be flushed to zero."""
    dtype = array.dtype
    if dtype == FLOAT8:  # nothing flushes its subnormal numbers
        return Estimate(array.astype(np.float64), None, dtype)
    if dtype.kind in "iub":
        return Estimate(array, None, dtype)
    if dtype not in WIDE or dtype.kind == "c":
        raise Underivable(f"no bound is derived for {dtype}")
    value = array.astype(WIDE[dtype])
    size = np.abs(value)
    lost = np.where((size < float(finfo(dtype).tiny)) & (size > 0), size, 0)
    return Estimate(value, lost if lost.any() else None, dtype)


def of_constant(value: Any, like: Any = None) -> Estimate:
    """Returns the estimate of a constant of the reference, in the dtype of ``like`` unless it is None.

    A number that needs the last bits of its dtype, such as 0.1, was rounded to the dtype. A kernel may have more of its
    digits. Whole numbers, and numbers that need at most half of the bits, are exact.
    """
    estimate = of_input(np.asarray(value, None if like is None else like.dtype))
    if not estimate.is_float:
        return estimate
    half = significand_bits(estimate.dtype) >> 1
    fraction, _ = np.frexp(estimate.value)
    whole = (fraction * 2**half % 1 == 0) | (estimate.value % 1 == 0) | ~np.isfinite(estimate.value)
    if whole.all():
        return estimate
    rounding = np.where(whole, 0, unit(estimate.dtype) * np.abs(estimate.value))
    return Estimate(estimate.value, estimate.errors + rounding, estimate.dtype)


def unit(dtype: np.dtype[Any]) -> float:
    """Returns the unit roundoff of a dtype plus that of its wide type: truth is rounded as often as the result."""
    return float(finfo(dtype).eps) / 2 + float(np.finfo(np.dtype(WIDE[dtype])).eps) / 2


def rounded(
    value: Any, error: Any, dtype: np.dtype[Any], ulps: Any = 1.0, *, unknown: Any = False, flushes: Any = 1
) -> Estimate:
    """Returns the estimate of an operation's result.

    Args:
        value: Truth.
        error: The effect of the operands' errors.
        dtype: The dtype of the result.
        ulps: Bound of the error of the operation itself, in units of u relative to its result.
        unknown: True where the result is unknown, although ``error`` is finite.
        flushes: Intermediate results that may be flushed to zero.
    """
    if dtype not in WIDE:
        raise Underivable("integers that depend on a rounded number are more than added up")
    value = np.asarray(value).astype(WIDE[dtype], copy=False)
    tiny = float(finfo(dtype).tiny)
    size = np.abs(value)
    # The rounding error is relative to the computed result, which may be larger than truth by ``error``.
    total = np.asarray(error + ulps * unit(dtype) * (size + error))
    small = size - total < tiny * flushes
    if small.any():
        total = np.where(small, total + np.minimum(size + total, tiny) * flushes, total)
    finite = np.isfinite(value)
    if not finite.all() or not np.isfinite(total).all():
        # A NaN or an infinity in truth needs no bound: the judge requires it at the same index.
        total = np.where(finite, np.where(np.isnan(total), np.inf, total), 0)
    if np.any(unknown):
        total = np.where(unknown, np.inf, total)
    return Estimate(value, np.broadcast_to(total, value.shape), dtype)


def selected(value: Array, error: Array | None, dtype: np.dtype[Any]) -> Estimate:
    """Returns the estimate of a result that comparisons select, such as a maximum or a sorted element.

    Threads that flush subnormal numbers compare them as zeros, but may return them unchanged. So the selected number
    may be another subnormal number, on the other side of zero.

    Args:
        value: Truth.
        error: The largest error of the numbers that may be selected; None if all are exact.
        dtype: The dtype of the result.
    """
    if error is not None and dtype in WIDE:
        error = np.where(np.abs(value) <= float(finfo(dtype).tiny), 2 * error, error)
    return Estimate(value, error, dtype)


def unknown(*operands: Estimate) -> Any:
    """Returns where one of the operands, which are broadcast together, is unknown."""
    return functools.reduce(operator.or_, (np.isinf(each.own) for each in operands if each.own is not None), False)


def in_any_order(
    ordered: Estimate,
    operands: list[Estimate],
    size: Any,
    quanta: Any,
    new: int = 1,
    *,
    once: Any = False,
    exact: Any = None,
    reach: Any = None,
    bits: int | None = None,
) -> Estimate:
    """Returns the estimate of an addition, a multiplication, or another operation that does not end ``S``.

    Args:
        ordered: The estimate in the order of the reference.
        operands: The operands of the operation.
        size: ``S`` of the result; None if it is the magnitude of the value.
        quanta: The quanta of the result.
        new: The number of steps of the operation.
        once: True where a single such operation on exact operands is exact if its result fits the dtype.
        exact: For a sum of several terms, which has partial results itself: where all of its terms are exact.
        reach: As in :class:`Estimate`, of a product.
        bits: The bits of a partial sum; None for those of the dtype.
    """
    dtype, value, own = ordered.dtype, ordered.value, ordered.own
    if dtype not in WIDE:
        return ordered
    largest, steps, overflows = float(finfo(dtype).max), steps_of(operands, new), np.zeros((), bool)
    several = exact is not None
    if size is not None and (several or steps.bit_count() > 1):
        overflows = size > largest
    if reach is not None and any(operand.reach is not None for operand in operands):
        overflows = overflows | (reach[1] > largest) & np.isfinite(value)
        # If a partial product is flushed to zero, its term is lost: at most all terms, or tiny times the other factors.
        tiny, terms = float(finfo(dtype).tiny), np.abs(value) if size is None else size
        lost = np.where((reach[0] < tiny) & np.isfinite(value), np.fmin(terms, tiny * reach[1]), 0)
        own = np.asarray(lost + ordered.owns) if np.any(lost > 0) else own
    for operand in operands:
        some = operand.overflows
        if some is not None:
            overflows = overflows | (some.any() if several or some.ndim not in (0, value.ndim) else some)
    if size is not None:
        overflows = overflows | np.isnan(size)
    if np.any(overflows):
        size = np.where(overflows & np.isfinite(value), np.inf, np.abs(value) if size is None else size)
    # Zero times infinity is a multiple of nothing.
    quanta = np.where(np.isnan(quanta), 0, quanta)
    if exact is None:
        exact = functools.reduce(operator.and_, (operand.is_exact for operand in operands))
    terms = np.abs(value) if size is None else size
    whole = nothing_rounded(terms, quanta, bits or significand_bits(dtype), float(finfo(dtype).tiny))
    if steps.bit_count() == new:
        whole = whole | once & fits(value, dtype)

    def shaped(array: Any) -> Any:
        return array if array is None or isinstance(array, bool | float) else np.broadcast_to(array, value.shape)

    return Estimate(
        value, own, dtype, shaped(size), shaped(quanta), steps, shaped(exact & whole), reach, summed=several
    )


def fits(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns where a wide value fits the dtype. There one correctly rounded operation gives exactly this value."""
    return (value.astype(dtype).astype(value.dtype) == value) | np.isnan(value)


@contextlib.contextmanager
def in_double(on: bool = True) -> Iterator[None]:
    """Makes JAX compute on the CPU, with x64 mode on or off."""
    with jax.enable_x64(on), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def by_jax(primitive: Any, operands: list[Array], params: dict[str, Any]) -> list[Array]:
    """Returns the results of one primitive, on the CPU, in the dtypes of its operands."""
    with in_double():
        results = primitive.bind(*map(jax.numpy.asarray, operands), **params)
        return [np.asarray(result) for result in (results if primitive.multiple_results else [results])]
