"""Judges results by their true values: whether they are right, and how much of the error budget they use.

The error bounds come from :mod:`suites.numerics.error_model`. An element whose bound is infinite cannot be judged. If
there is such an element, and no element is wrong, the verdict is UNCHECKED. The error of a complex number is its
distance in the complex plane. If one part of its truth is infinite or NaN, at least one part of the result must be too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports import Accuracy, Status
from suites.numerics.arrays import Array
from suites.numerics.error_model import WIDE, Expected, Truth, finfo
from suites.numerics.patterns import pattern


@dataclass(frozen=True)
class ResultVerdict:
    """Whether results are right.

    Attributes:
        status: PASSED, the kind of the error, or UNCHECKED if an element cannot be judged.
        reason: The error as text; None if there is none.
        accuracy: The largest errors of the results; None if shapes or dtypes are wrong.
        judged: The number of judged elements. An output without elements counts as one.
        cause: The cause of the error, such as a common pattern of all wrong elements; None if unknown.
        output: The number of the worst output; None if no value is wrong.
    """

    status: Status
    reason: str | None
    accuracy: Accuracy | None
    judged: int = 1
    cause: str | None = None
    output: int | None = None

    @property
    def words(self) -> str | None:
        """The cause, if one is known, and the reason."""
        return f"{self.cause}: {self.reason}" if self.cause else self.reason


def judge(results: list[Array], truth: Truth) -> ResultVerdict:
    """Compares results with truth: first number, shapes and dtypes, then NaN, infinities, signs of zeros and values."""
    mismatch = wrong_outputs(results, truth.outputs)
    if mismatch:
        return mismatch
    first = list(map(_compare, results, truth.outputs))
    worst = max(range(len(first)), key=lambda index: _severity(first[index]), default=0)
    return _verdict(worst, results, truth, first)


def judge_where(
    judgeable: Sequence[Array], results: list[Array], truth: Truth, others: Sequence[Sequence[Array]] = ()
) -> ResultVerdict:
    """Compares results with truth where ``judgeable`` is True; there, a value of an array in ``others`` is right too.

    Args:
        judgeable: For each output, False where an element may have any value.
        results: The results.
        truth: The true values.
        others: For each output, arrays of further right values; empty if there are none.
    """
    if wrong_outputs(results, truth.outputs) is None:
        judgeable = list(judgeable)
        for index, arrays in enumerate(others):
            for each in arrays:
                judgeable[index] = judgeable[index] & (results[index] != each)
        with np.errstate(all="ignore"):
            results = [
                got if where.all() else np.where(where, got, expected.value.astype(got.dtype))
                for where, got, expected in zip(judgeable, results, truth.outputs, strict=True)
            ]
    return judge(results, truth)


def wrong_elements(results: list[Array], truth: Truth) -> list[Array]:
    """Returns for each output where its elements are wrong; all are wrong if a shape or dtype is."""
    if wrong_outputs(results, truth.outputs):
        return [np.ones(expected.value.shape, bool) for expected in truth.outputs]
    return [_compare(got, expected).problem > 0 for got, expected in zip(results, truth.outputs, strict=True)]


OUTSIDE = 1
"""The index in ``_PROBLEMS`` of a value outside of its bound."""

_PROBLEMS = (
    "",
    "value outside the error bound",
    "wrong sign of zero",
    "infinity at the wrong index",
    "NaN at the wrong index",
)


@dataclass(frozen=True)
class _Comparison:
    """For each element: an index of ``_PROBLEMS``, the share of the error budget, the distance in ulps, and whether
    its bound is infinite.
    """

    problem: Array
    share: Array
    ulp: Array
    unknown: Array


def wrong_outputs(results: Sequence[Any], outputs: Sequence[Any]) -> ResultVerdict | None:
    """Returns the verdict on results of another number, shape or dtype than the outputs; None if they agree.

    Args:
        results: Anything with shape and dtype.
        outputs: Likewise, of the operator.
    """
    if len(results) != len(outputs):
        return ResultVerdict(Status.WRONG_SHAPE, f"{len(results)} outputs, expected {len(outputs)}", None)
    for index, (got, expected) in enumerate(zip(results, outputs, strict=True)):
        if tuple(got.shape) != tuple(expected.shape):
            reason = f"output {index} has shape {got.shape}, expected {expected.shape}"
            return ResultVerdict(Status.WRONG_SHAPE, reason, None)
        if got.dtype != expected.dtype:
            return ResultVerdict(Status.WRONG_DTYPE, f"output {index} is {got.dtype}, expected {expected.dtype}", None)
    return None


def _compare(got: Array, expected: Expected) -> _Comparison:
    if got.dtype not in WIDE:
        wrong = got != expected.value
        if expected.margin is not None:
            # A float64 would lose the last bits of large integers.
            apart = np.abs(got.astype(np.longdouble) - expected.value.astype(np.longdouble))
            wrong &= ~(apart <= expected.margin)
        share = np.where(wrong, np.inf, 0.0)
        return _Comparison(wrong.astype(np.int8), share, share, np.zeros(got.shape, bool))
    truth = expected.value
    margin = np.zeros(truth.shape) if expected.margin is None else np.broadcast_to(expected.margin, truth.shape)
    info, is_complex = finfo(got.dtype), got.dtype.kind == "c"
    with np.errstate(all="ignore"):
        unknown = np.isfinite(truth) & ~np.isfinite(margin)
        difference = np.abs(got.astype(truth.dtype) - truth)
        share = np.where(difference == 0, 0.0, difference / margin)
        ulp = difference / np.spacing(np.maximum(np.abs(truth), info.tiny).astype(got.real.dtype))
        fits = np.isfinite(truth) & ~(np.abs(truth) + margin > info.max)
        if is_complex:
            right_infinity = ~np.isfinite(got) & ~fits  # inf - inf in a part is NaN
            nan = np.isnan(got) & ~right_infinity
        else:
            # An infinity is right if a result within the margin may overflow.
            right_infinity = np.isinf(got) & (np.sign(got) == np.sign(truth)) & ~fits & ~np.isnan(truth)
            nan = np.isnan(got) != np.isnan(truth)
        if expected.overflows is not None:
            right_infinity |= expected.overflows & ~np.isfinite(got)
            nan &= ~right_infinity
        infinite = (np.isinf(got) | ~np.isfinite(truth)) & ~right_infinity & (is_complex | ~np.isnan(truth))
        accepted = right_infinity | unknown | (np.isnan(got) & np.isnan(truth))
        zero = np.zeros(got.shape, bool)
        if np.any(expected.signed_zero):
            for one, other in ((got.real, truth.real), (got.imag, truth.imag)) if is_complex else ((got, truth),):
                zero |= (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))
            zero &= expected.signed_zero
        value = ~accepted & ~(share <= 1)
        problem = np.select([unknown, nan, infinite, zero, value], [0, 4, 3, 2, 1], 0).astype(np.int8)
        share = np.where(accepted, 0.0, np.where(problem > 1, np.inf, share)).astype(np.float64)
        ulp = np.where(accepted, 0.0, np.where(problem > 2, np.inf, ulp)).astype(np.float64)
    return _Comparison(problem, share, ulp, unknown)


def _severity(comparison: _Comparison) -> tuple[int, float]:
    if not comparison.problem.size:
        return 0, 0.0
    return int(comparison.problem.max()), float(comparison.share.max())


def _verdict(worst: int, results: list[Array], truth: Truth, comparisons: list[_Comparison]) -> ResultVerdict:
    comparison, got = comparisons[worst], results[worst]
    judged = sum(int((~each.unknown).sum()) if each.unknown.size else 1 for each in comparisons)
    if not got.size:
        return ResultVerdict(Status.PASSED, None, Accuracy(max_ulp=0.0, budget_used=0.0))
    problem, share = _severity(comparison)
    position = np.argmax(np.where(comparison.problem == problem, comparison.share, -1.0))
    index = [int(i) for i in np.unravel_index(position, got.shape)]
    value, true = got.flat[position], truth.outputs[worst].value.flat[position]
    accuracy = Accuracy(
        max_ulp=max(float(each.ulp.max()) for each in comparisons if each.ulp.size),
        budget_used=share,
        worst_index=index,
        got=_number(value),
        truth=_number(true),
    )
    if not problem:
        for number, each in enumerate(comparisons):
            if each.unknown.any():
                return ResultVerdict(
                    Status.UNCHECKED, _unknown(number, each.unknown, results[number]), accuracy, judged
                )
        return ResultVerdict(Status.PASSED, None, accuracy, judged)
    wrong = int((comparison.problem > 0).sum())
    margin = truth.outputs[worst].margin
    allowed, used = "", f"{share:.3g} of the error budget; " if np.isfinite(share) else ""
    if problem == OUTSIDE and margin is not None:
        allowed = f", allowed +-{float(np.broadcast_to(margin, got.shape).flat[position]):.3g}"
    reason = (
        f"output {worst}{index}: {_PROBLEMS[problem]}: got {value!s}, truth {true!s}{allowed} "
        f"({used}{wrong} of {got.size} elements are wrong)"
    )
    cause = _swapped(results, truth) or pattern(got, truth.outputs[worst].value, comparison.problem > 0)
    return ResultVerdict(Status.WRONG_VALUE, reason, accuracy, judged, cause=cause, output=worst)


def _swapped(results: list[Array], truth: Truth) -> str | None:
    """Returns which two outputs would be right if they were exchanged, as text; None if there are none."""
    for one, other in itertools.combinations(range(len(results)), 2):
        pair, others = [results[one], results[other]], Truth((truth.outputs[other], truth.outputs[one]))
        if wrong_outputs(pair, others.outputs) is None and not any(each.any() for each in wrong_elements(pair, others)):
            return f"outputs {one} and {other} are exchanged"
    return None


def _unknown(number: int, unknown: Array, got: Array) -> str:
    index = [int(i) for i in np.unravel_index(int(unknown.argmax()), got.shape)]
    return (
        f"output {number}{index}: no error bound is known, so that any finite result would pass "
        f"({int(unknown.sum())} of {got.size} elements). Pass tolerance= or truth=, or samples without such elements, "
        "for instance smaller ones, or without numbers near a pole or a threshold"
    )


def _number(value: Any) -> float | str:
    """The value as a float; as text if a float does not hold it."""
    if np.iscomplexobj(value) or (isinstance(value, np.integer) and abs(int(value)) > 2**53):
        return str(value)
    return float(value)
