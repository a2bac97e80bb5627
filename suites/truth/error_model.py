"""Results and their true values in, a verdict out: PASSED or what is wrong, and the share of the error budget used.

The error model
---------------
Let ``u`` be the unit roundoff of the output's dtype (2**-24 for float32, 2**-53 for float64). One rounded operation
obeys ``fl(a op b) = (a op b)(1 + d)`` with ``|d| <= u``. A value that went through ``k`` of them in a row carries a
product of ``k`` such factors, and (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Lemma 3.1)::

    prod (1 + d_i)**(+-1) = 1 + theta_k,   |theta_k| <= gamma_k = k u / (1 - k u)    for k u < 1.

In a sum of products each term passes through its own product and at most ``k - 1`` additions, in whatever order these
are done (Higham, section 4.2), so the computed sum is off by at most ``gamma_k * S``, where ``S`` is the sum of
absolute values. ``k`` is the longest chain of roundings, not the number of terms: partial sums of blocks of b terms,
then summed, have ``k = b + n/b``. An operator declares the chain that its kernels must keep to, see
:func:`blocked_terms`.

A result is accepted when ``|got - truth| <= C u |truth| + gamma_k S + f * tiny``. ``C`` is a limit for elementwise
functions (a correctly rounded result has C = 1). ``tiny``, the smallest normal number, allows for ``f`` operands or
results flushed to zero, as XLA's threads do with subnormal numbers.

Truth has at least 11 more bits than the result: NumPy's float64 for float32. For float64 it is ``np.longdouble``, 64
bits of significand on x86-64 and more on other 64-bit Linux; where it is no wider than float64, truth is as uncertain
as the result, and :data:`WIDE` shows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from reports import Accuracy, Status

WIDE: dict[str, type[np.floating[Any]]] = {
    "bfloat16": np.float64,
    "float16": np.float64,
    "float32": np.float64,
    "float64": np.longdouble,
}
"""The type that truth is computed in, by the dtype of the inputs."""

BLOCK = 1024
"""Terms in a partial sum of the suite's own kernels."""

Array = np.ndarray[Any, Any]


def wide(array: Array) -> Array:
    """The array, which is already rounded to its own dtype, in the type that truth is computed in."""
    return array.astype(WIDE[array.dtype.name])


def finfo(dtype: np.dtype[Any] | str) -> Any:
    """``np.finfo``, which does not know bfloat16, for every dtype of :data:`WIDE`."""
    info: Any = jnp.finfo
    return info(dtype)


def gamma(terms: int, dtype: np.dtype[Any] | str) -> float:
    """The relative error bound ``k u / (1 - k u)`` of a chain of ``terms`` roundings; inf where it bounds nothing."""
    ku = terms * float(finfo(dtype).eps) / 2
    return ku / (1 - ku) if ku < 1 else float("inf")


def blocked_terms(count: int) -> int:
    """The chain of roundings in a sum of ``count`` products, added up in blocks of :data:`BLOCK`."""
    return min(count, BLOCK) + -(-count // BLOCK)


@dataclass(frozen=True)
class Expected:
    """One output as it should be.

    Attributes:
        value: Truth, in a wide type; in the output's dtype where every bit counts.
        dtype: Dtype of the output.
        margin: Accepted absolute error of each element; None where every bit counts. Integers and booleans have one
            where they depend on a rounded number: whether it is above a threshold, say.
        signed_zero: Whether a zero must have the sign of the true zero.
    """

    value: Array
    dtype: np.dtype[Any]
    margin: Array | None
    signed_zero: bool = False


@dataclass(frozen=True)
class Truth:
    """All outputs as they should be.

    Attributes:
        outputs: One entry per output.
        alternative: The other answer of a discontinuous operator, for the elements that are ``undecided``.
        undecided: True where truth is so near to the discontinuity that either answer is right. An element is accepted
            when all outputs agree with one of the two; outputs must have the shape of this mask.
    """

    outputs: tuple[Expected, ...]
    alternative: tuple[Expected, ...] = ()
    undecided: Array | None = None


@dataclass(frozen=True)
class Verdict:
    """How right the results are; ``reason`` is None for PASSED."""

    status: Status
    reason: str | None
    accuracy: Accuracy | None


def exact(value: Array, signed_zero: bool = False) -> Expected:
    """Integers, booleans, copies: the very value (of NaNs only that they are NaN)."""
    return Expected(value, value.dtype, None, signed_zero)


def bounded(
    value: Array,
    dtype: np.dtype[Any] | str,
    *,
    ulps: float = 0.0,
    condition: Array | float = 0.0,
    terms: int = 0,
    flushed: float = 1.0,
    signed_zero: bool = False,
) -> Expected:
    """A rounded result.

    Args:
        value: Truth in a wide type.
        dtype: Dtype of the output.
        ulps: ``C`` of the error model, in units of u: 1 is half a unit in the last place, a correctly rounded result.
        condition: ``S`` of the error model.
        terms: ``k`` of the error model.
        flushed: ``f`` of the error model: how many operands of weight one may be flushed to zero.
        signed_zero: Whether the sign of a zero counts.
    """
    info = finfo(dtype)
    with np.errstate(all="ignore"):
        # What is not finite has no margin: its place and sign are compared.
        rounded = np.where(np.isfinite(value), ulps * float(info.eps) / 2 * np.abs(value), 0)
        accumulated = np.where(np.isfinite(condition), gamma(terms, dtype) * np.asarray(condition), 0)
        margin = rounded + accumulated + flushed * float(info.tiny)
    return Expected(value, np.dtype(dtype), np.asarray(margin), signed_zero)


def judge(results: list[Array], truth: Truth) -> Verdict:
    """Compares results with truth: number, shapes and dtypes, then NaN, infinities, zeros, values, in this order."""
    mismatch = _declared(results, truth.outputs)
    if mismatch:
        return mismatch
    first = [_compare(got, expected) for got, expected in zip(results, truth.outputs, strict=True)]
    if truth.undecided is not None:
        second = [_compare(got, expected) for got, expected in zip(results, truth.alternative, strict=True)]
        other = truth.undecided & _all_right(second) & ~_all_right(first)
        first = [a.where(other, b) for a, b in zip(first, second, strict=True)]
    worst = max(range(len(first)), key=lambda index: _severity(first[index]), default=0)
    return _verdict(worst, results, truth, first)


_PROBLEMS = (
    "",
    "value outside the error bound",
    "wrong sign of zero",
    "infinity in the wrong place",
    "NaN in the wrong place",
)


@dataclass(frozen=True)
class _Comparison:
    """Elementwise: which of ``_PROBLEMS``, the share of the budget, the distance in units in the last place."""

    problem: Array
    share: Array
    ulp: Array

    def where(self, mask: Array, other: _Comparison) -> _Comparison:
        pairs = ((other.problem, self.problem), (other.share, self.share), (other.ulp, self.ulp))
        return _Comparison(*(np.where(mask, theirs, ours) for theirs, ours in pairs))


def _declared(results: list[Array], outputs: tuple[Expected, ...]) -> Verdict | None:
    if len(results) != len(outputs):
        return Verdict(Status.WRONG_SHAPE, f"{len(results)} outputs, expected {len(outputs)}", None)
    for index, (got, expected) in enumerate(zip(results, outputs, strict=True)):
        if got.shape != expected.value.shape:
            reason = f"output {index} has shape {got.shape}, expected {expected.value.shape}"
            return Verdict(Status.WRONG_SHAPE, reason, None)
        if got.dtype != expected.dtype:
            return Verdict(Status.WRONG_DTYPE, f"output {index} is {got.dtype}, expected {expected.dtype}", None)
    return None


def _compare(got: Array, expected: Expected) -> _Comparison:
    if got.dtype.name not in WIDE:
        wrong = got != expected.value
        if expected.margin is not None:
            wrong &= ~(np.abs(got.astype(np.float64) - expected.value.astype(np.float64)) <= expected.margin)
        share = np.where(wrong, np.inf, 0.0)
        return _Comparison(wrong.astype(np.int8), share, share)
    truth = expected.value
    margin = np.zeros(truth.shape) if expected.margin is None else np.broadcast_to(expected.margin, truth.shape)
    info = finfo(got.dtype)
    with np.errstate(all="ignore"):
        difference = np.abs(got.astype(truth.dtype) - truth)
        share = np.where(difference == 0, 0.0, difference / margin)
        ulp = difference / np.spacing(np.maximum(np.abs(truth), info.tiny).astype(got.dtype))
        same_sign = np.sign(got) == np.sign(truth)
        # Overflow is right where truth, rounded, may not fit: |truth| + margin beyond the largest number.
        right_infinity = np.isinf(got) & same_sign & (np.isinf(truth) | (np.abs(truth) + margin > info.max))
        nan = np.isnan(got) != np.isnan(truth)
        infinite = (np.isinf(got) | np.isinf(truth)) & ~right_infinity & ~np.isnan(truth)
        settled = right_infinity | (np.isnan(got) & np.isnan(truth))
        zero = expected.signed_zero & (got == 0) & (truth == 0) & (np.signbit(got) != np.signbit(truth))
        value = ~settled & ~(share <= 1)
        problem = np.select([nan, infinite, zero, value], [4, 3, 2, 1], 0).astype(np.int8)
        share = np.where(settled, 0.0, np.where(problem > 1, np.inf, share)).astype(np.float64)
        ulp = np.where(settled, 0.0, np.where(problem > 2, np.inf, ulp)).astype(np.float64)
    return _Comparison(problem, share, ulp)


def _all_right(comparisons: list[_Comparison]) -> Array:
    right: Array = np.logical_and.reduce([comparison.problem == 0 for comparison in comparisons])
    return right


def _severity(comparison: _Comparison) -> tuple[int, float]:
    if not comparison.problem.size:
        return 0, 0.0
    return int(comparison.problem.max()), float(comparison.share.max())


def _verdict(worst: int, results: list[Array], truth: Truth, comparisons: list[_Comparison]) -> Verdict:
    comparison, got = comparisons[worst], results[worst]
    if not got.size:
        return Verdict(Status.PASSED, None, Accuracy(max_ulp=0.0, budget_used=0.0))
    problem, share = _severity(comparison)
    place = np.argmax(np.where(comparison.problem == problem, comparison.share, -1.0))
    index = [int(i) for i in np.unravel_index(place, got.shape)]
    value, true = got.flat[place], truth.outputs[worst].value.flat[place]
    accuracy = Accuracy(
        max_ulp=max(float(each.ulp.max()) for each in comparisons if each.ulp.size),
        budget_used=share,
        worst_index=index,
        got=_number(value),
        truth=_number(true),
    )
    if not problem:
        return Verdict(Status.PASSED, None, accuracy)
    wrong = int((comparison.problem > 0).sum())
    reason = (
        f"output {worst}{index}: {_PROBLEMS[problem]}: got {value!s}, truth {true!s} "
        f"({share:.3g} of the error budget; {wrong} of {got.size} elements are wrong)"
    )
    return Verdict(Status.WRONG_VALUE, reason, accuracy)


def _number(value: Any) -> float | str:
    """A float where it holds the value, else text."""
    if np.iscomplexobj(value) or (isinstance(value, np.integer) and abs(int(value)) > 2**53):
        return str(value)
    return float(value)
