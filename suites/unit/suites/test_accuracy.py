"""The error model must accept what is right, and refuse every way of being wrong that it claims to catch."""

import numpy as np
import pytest

from reports import Status
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.verdict import judge

RANDOM = np.random.default_rng(0)


def _truth(value, ulps):
    """A float32 result that may be off by `ulps` units of u; a subnormal one may be flushed to zero."""
    info, value = finfo(np.float32), np.asarray(value, np.float64)
    with np.errstate(all="ignore"):
        relative = np.where(np.isfinite(value), ulps * float(info.eps) / 2 * np.abs(value), 0)
    return Truth((Expected(value, np.dtype(np.float32), relative + float(info.tiny)),))


def _status(got, truth):
    return judge([np.asarray(got)], truth).status


def test_one_wrong_element_is_found_and_named():
    value = RANDOM.standard_normal((7, 11))
    got = value.astype(np.float32)
    got[3, 5] *= np.float32(1.001)
    verdict = judge([got], _truth(value, ulps=1))
    assert verdict.status is Status.WRONG_VALUE
    assert verdict.accuracy.worst_index == [3, 5]
    assert "output 0[3, 5]" in verdict.reason
    assert "1 of 77 elements" in verdict.reason


@pytest.mark.parametrize(
    ("got", "true", "what"),
    [
        ([1, np.nan], [1, 2], "NaN"),
        ([1, np.inf], [1, 2], "infinity"),
        ([1, 2], [1, np.inf], "infinity"),
        ([1, np.inf], [1, np.nan], "NaN"),
    ],
)
def test_masks_must_agree_before_values_are_looked_at(got, true, what):
    verdict = judge([np.array(got, np.float32)], _truth(true, ulps=1e30))
    assert verdict.status is Status.WRONG_VALUE
    assert what in verdict.reason


def test_overflow_is_right_only_where_the_rounded_truth_may_not_fit():
    assert _status(np.array([np.inf], np.float32), _truth([1e39], ulps=1)) is Status.PASSED
    assert _status(np.array([-np.inf], np.float32), _truth([1e39], ulps=1)) is Status.WRONG_VALUE
    assert _status(np.array([np.inf], np.float32), _truth([3e38], ulps=1)) is Status.WRONG_VALUE


@pytest.mark.parametrize(
    ("got", "status"),
    [
        (np.zeros(3, np.float32), Status.WRONG_SHAPE),
        (np.zeros(2, np.float64), Status.WRONG_DTYPE),
        (np.zeros(2, np.float32), Status.PASSED),
    ],
)
def test_shape_comes_before_dtype_before_values(got, status):
    assert _status(got, _truth([0, 0], ulps=1)) is status
