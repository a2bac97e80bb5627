"""Holds a true value with a bound on the error of any reasonable kernel, for :mod:`suites.numerics.derived.reference`.

This is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3). Each
operation takes estimates of its operands and computes the true value in a wide type. Its error has two parts: the
effect of the operands' errors, and the rounding of the operation itself. The first is bounded with the largest slope
within the operands' bounds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.error_model import WIDE, finfo, significand_bits


class Underivable(Exception):
    """No bound can be derived. The message continues a sentence that ends with "because"."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """The true value of an intermediate result, and a bound on the error of a kernel.

    Attributes:
        value: Truth: floats in the wide type of their dtype, everything else in its own dtype.
        error: Bound of the absolute error, in the shape of ``value``; None if every kernel has exactly this value. An
            infinite bound says that nothing is known. A value may then be infinite or NaN as well. The error of a
            complex number is its distance in the complex plane.
        dtype: The dtype of this result in a kernel.
    """

    value: Array
    error: Array | None
    dtype: np.dtype[Any]

    @property
    def errors(self) -> Array:
        """The error as an array; read-only zeros if it is None."""
        if self.error is not None:
            return self.error
        return np.broadcast_to(np.zeros((), self.value.real.dtype if self.is_float else np.float64), self.value.shape)

    @property
    def is_float(self) -> bool:
        """Whether its dtype is a float, real or complex."""
        return self.dtype.name in WIDE

    @property
    def is_complex(self) -> bool:
        """Whether its dtype is complex."""
        return self.dtype.kind == "c"

    @property
    def exact(self) -> Any:
        """True where every kernel has exactly this value."""
        return True if self.error is None else self.error == 0

    def moved(self, move: Callable[[Array], Any]) -> Estimate:
        """The estimate after ``move``, a function that only moves the elements of an array."""
        return Estimate(np.asarray(move(self.value)), None if self.error is None else move(self.error), self.dtype)


def of_input(array: Array) -> Estimate:
    """An input of the kernel. It is exact, except that a subnormal number may be flushed to zero."""
    dtype = array.dtype
    if dtype.name not in WIDE:
        if dtype.kind not in "iub":
            raise Underivable(f"no bound is derived for {dtype}")
        return Estimate(array, None, dtype)
    value = array.astype(WIDE[dtype.name])
    if dtype.kind == "c":
        lost = np.hypot(_flushed(value.real, dtype), _flushed(value.imag, dtype))
    else:
        lost = _flushed(value, dtype)
    return Estimate(value, lost if lost.any() else None, dtype)


def _flushed(value: Array, dtype: np.dtype[Any]) -> Array:
    """What is lost where a subnormal number is flushed to zero."""
    size = np.abs(value)
    return np.where((size < float(finfo(dtype).tiny)) & (size > 0), size, 0)


def of_constant(array: Array) -> Estimate:
    """A constant of the reference.

    A number that needs the last bits of its dtype, such as 0.1, has been rounded to that dtype. A kernel that holds
    more of its digits is right as well. Whole numbers, and numbers that need at most half of the bits, are exact.
    """
    estimate = of_input(array)
    if not estimate.is_float:
        return estimate
    half = significand_bits(array.dtype) >> 1
    whole = np.ones(estimate.value.shape, bool)
    for part in (estimate.value.real, estimate.value.imag) if estimate.is_complex else (estimate.value,):
        fraction, _ = np.frexp(part)
        whole &= (fraction * 2**half % 1 == 0) | (part % 1 == 0) | ~np.isfinite(part)
    if whole.all():
        return estimate
    rounding = np.where(whole, 0, unit(array.dtype) * np.abs(estimate.value))
    return Estimate(estimate.value, estimate.errors + rounding, estimate.dtype)


def unit(dtype: np.dtype[Any]) -> float:
    """Unit roundoff of a dtype and of its wide type, added: truth is rounded as often as the result."""
    return float(finfo(dtype).eps) / 2 + float(np.finfo(np.dtype(WIDE[dtype.name])).eps) / 2


def gamma_of(roundings: Any, dtype: np.dtype[Any]) -> Any:
    """:func:`suites.numerics.error_model.gamma` with :func:`unit`, of a number or an array of numbers of roundings."""
    ku = np.asarray(roundings) * unit(dtype)
    return np.where(ku < 1, ku / np.maximum(1 - ku, unit(dtype)), np.inf)


def rounded(
    value: Any, error: Any, dtype: np.dtype[Any], ulps: Any = 1.0, *, unknown: Any = False, flushes: Any = 1
) -> Estimate:
    """The estimate of an operation's result.

    Args:
        value: Truth.
        error: The effect of the operands' errors.
        dtype: The dtype of the result.
        ulps: Bound of the error of the operation itself, in units of u relative to its result.
        unknown: True where nothing is known of the result, although ``error`` is finite.
        flushes: Intermediate results that may be flushed to zero.
    """
    if dtype.name not in WIDE:
        raise Underivable("integers that depend on a rounded number are not only added up")
    value = np.asarray(value).astype(WIDE[dtype.name], copy=False)
    tiny = float(finfo(dtype).tiny)
    size = np.abs(value)
    # The rounding error is relative to the computed result, which may be larger than truth by ``error``.
    total = np.asarray(error + ulps * unit(dtype) * (size + error))
    small = size - total < tiny * flushes
    if small.any():
        total = np.where(small, total + np.minimum(size + total, tiny) * flushes, total)
    finite = np.isfinite(value)
    if not finite.all() or not np.isfinite(total).all():
        # A NaN or an infinity in truth needs no bound: the judge compares its place.
        total = np.where(finite, np.where(np.isnan(total), np.inf, total), 0)
    if np.any(unknown):
        total = np.where(unknown, np.inf, total)
    return Estimate(value, np.broadcast_to(total, value.shape), dtype)


def selected(value: Array, error: Array | None, dtype: np.dtype[Any]) -> Estimate:
    """The estimate of a result that comparisons select, such as a maximum or a sorted element.

    Threads that flush subnormal numbers compare them as zeros, and may still return them as they are. So the selected
    number may be another one, as far from zero on the other side.

    Args:
        value: Truth.
        error: The largest error of the numbers that may be selected; None if all are exact.
        dtype: The dtype of the result.
    """
    if error is not None and dtype.name in WIDE and dtype.kind != "c":
        error = np.where(np.abs(value) <= float(finfo(dtype).tiny), 2 * error, error)
    return Estimate(value, error, dtype)


def unknown(*operands: Estimate) -> Any:
    """True where nothing is known of one of the operands, which are broadcast together."""
    where: Any = False
    for operand in operands:
        if operand.error is not None:
            where = where | np.isinf(operand.error)
    return where


@contextlib.contextmanager
def in_double(on: bool = True) -> Iterator[None]:
    """Has JAX compute on the CPU, with x64 mode on or off."""
    with jax.enable_x64(on), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def by_jax(primitive: Any, operands: list[Array], params: dict[str, Any]) -> list[Array]:
    """Results of one primitive, on the CPU, in the dtypes of its operands."""
    with in_double():
        results = primitive.bind(*map(jax.numpy.asarray, operands), **params)
        return [np.asarray(result) for result in (results if primitive.multiple_results else [results])]
