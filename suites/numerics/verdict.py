"""Judges results by their true values: says whether they are right, and how much of the error budget they use.

The error bounds come from :mod:`suites.numerics.error_model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reports import Accuracy, Status
from suites.numerics.arrays import Array
from suites.numerics.error_model import WIDE, Expected, Truth, finfo


@dataclass(frozen=True)
class Verdict:
    """Whether results are right.

    Attributes:
        status: PASSED, or the kind of the error.
        reason: The error in words; None if they passed.
        accuracy: How far results are off; None if shapes or dtypes are wrong.
    """

    status: Status
    reason: str | None
    accuracy: Accuracy | None


def judge(results: list[Array], truth: Truth) -> Verdict:
    """Compares results with truth: first number, shapes and dtypes, then NaN, infinities, signs of zeros and values."""
    mismatch = _declared(results, truth.outputs)
    if mismatch:
        return mismatch
    first = _comparisons(results, truth)
    worst = max(range(len(first)), key=lambda index: _severity(first[index]), default=0)
    return _verdict(worst, results, truth, first)


def wrong_elements(results: list[Array], truth: Truth) -> list[Array]:
    """Returns for each output where its elements are wrong: everywhere if shapes or dtypes are."""
    if _declared(results, truth.outputs):
        return [np.ones(expected.value.shape, bool) for expected in truth.outputs]
    return [comparison.problem > 0 for comparison in _comparisons(results, truth)]


_PROBLEMS = (
    "",
    "value outside the error bound",
    "wrong sign of zero",
    "infinity in the wrong place",
    "NaN in the wrong place",
)


@dataclass(frozen=True)
class _Comparison:
    """For each element: an index of ``_PROBLEMS``, the share of the error budget, and the distance in ulps."""

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


def _comparisons(results: list[Array], truth: Truth) -> list[_Comparison]:
    first = [_compare(got, expected) for got, expected in zip(results, truth.outputs, strict=True)]
    if truth.undecided is None:
        return first
    second = [_compare(got, expected) for got, expected in zip(results, truth.alternative, strict=True)]
    other = truth.undecided & _all_right(second) & ~_all_right(first)
    return [a.where(other, b) for a, b in zip(first, second, strict=True)]


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
        # An infinity is right if a result within the margin may overflow.
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
    """The value as a float; as text if a float does not hold it."""
    if np.iscomplexobj(value) or (isinstance(value, np.integer) and abs(int(value)) > 2**53):
        return str(value)
    return float(value)
