"""The error model must accept what is right, and refuse every way of being wrong that it claims to catch."""

import numpy as np
import pytest

from reports import Status
from suites.numerics.blocked_sums import blocked_terms
from suites.numerics.error_model import Expected, Truth, bounded, exact, gamma, wide
from suites.numerics.verdict import judge

RANDOM = np.random.default_rng(0)


def _truth(value, **bound):
    return Truth((bounded(np.asarray(value, np.float64), np.float32, **bound),))


def _status(got, truth):
    return judge([np.asarray(got)], truth).status


def test_rounded_truth_is_accepted_within_one_unit_roundoff():
    value = RANDOM.standard_normal(1000)
    verdict = judge([value.astype(np.float32)], _truth(value, ulps=1))
    assert verdict.status is Status.PASSED
    assert 0.5 < verdict.accuracy.budget_used <= 1
    assert verdict.accuracy.max_ulp <= 0.5


def test_all_zero_answer_is_refused_however_tiny_the_truth():
    value = np.full(10, 1e-30)
    assert np.allclose(np.zeros(10), value, 1e-3, 1e-3)  # what a blanket tolerance says
    assert _status(np.zeros(10, np.float32), _truth(value, ulps=4)) is Status.WRONG_VALUE


def test_one_wrong_element_is_found_and_named():
    value = RANDOM.standard_normal((7, 11))
    got = value.astype(np.float32)
    got[3, 5] *= np.float32(1.001)
    verdict = judge([got], _truth(value, ulps=1))
    assert verdict.status is Status.WRONG_VALUE
    assert verdict.accuracy.worst_index == [3, 5]
    assert "output 0[3, 5]" in verdict.reason
    assert "1 of 77 elements" in verdict.reason


@pytest.mark.parametrize(("steps", "status"), [(1, Status.PASSED), (2, Status.PASSED), (5, Status.WRONG_VALUE)])
def test_limit_of_four_unit_roundoffs_is_two_units_in_the_last_place(steps, status):
    got = np.full(4, 1.0, np.float32)
    got[2] += steps * np.spacing(np.float32(1))
    assert _status(got, _truth(np.ones(4), ulps=4)) is status


@pytest.mark.parametrize(
    ("got", "true", "what"),
    [
        ([1, np.nan], [1, 2], "NaN"),
        ([1, 2], [1, np.nan], "NaN"),
        ([1, np.inf], [1, 2], "infinity"),
        ([1, 2], [1, np.inf], "infinity"),
        ([1, -np.inf], [1, np.inf], "infinity"),
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


def test_sign_of_zero_counts_where_declared():
    zero, minus = np.zeros(1, np.float32), np.array([-0.0], np.float32)
    assert _status(zero, _truth([-0.0], ulps=1)) is Status.PASSED
    assert _status(zero, _truth([-0.0], ulps=1, signed_zero=True)) is Status.WRONG_VALUE
    assert _status(minus, _truth([-0.0], ulps=1, signed_zero=True)) is Status.PASSED


def test_subnormal_truth_may_be_flushed_to_zero_but_nothing_larger():
    tiny = float(np.finfo(np.float32).tiny)
    assert _status(np.zeros(1, np.float32), _truth([tiny / 2], ulps=1)) is Status.PASSED
    assert _status(np.zeros(1, np.float32), _truth([tiny * 4], ulps=1)) is Status.WRONG_VALUE


@pytest.mark.parametrize(
    ("got", "status"),
    [
        (np.zeros(3, np.float32), Status.WRONG_SHAPE),
        (np.zeros(2, np.float64), Status.WRONG_DTYPE),
        (np.zeros(2, np.float32), Status.PASSED),
    ],
)
def test_shape_comes_before_dtype_before_values(got, status):
    assert _status(got, _truth([0, 0])) is status


def test_missing_output_is_a_wrong_shape():
    assert judge([], _truth([0.0])).status is Status.WRONG_SHAPE


def test_integers_are_compared_bit_for_bit():
    value = np.array([1, 2**62, -5])
    assert judge([value.copy()], Truth((exact(value),))).status is Status.PASSED
    verdict = judge([value + np.array([0, 1, 0])], Truth((exact(value),)))
    assert verdict.status is Status.WRONG_VALUE
    assert verdict.accuracy.truth == str(2**62)


def test_error_bound_of_sums_scales_with_the_condition_not_with_the_result():
    terms = np.array([1e8, 1.0, -1e8])
    computed = np.float32(np.float32(np.float32(1e8) + np.float32(1)) + np.float32(-1e8))  # 0, truth 1
    condition = np.abs(terms).sum()
    assert _status([computed], _truth([1.0], condition=condition, terms=3)) is Status.PASSED
    assert _status([computed], _truth([1.0], ulps=3)) is Status.WRONG_VALUE


def test_sum_in_too_low_a_precision_is_refused():
    values = RANDOM.uniform(0, 1, 100_000).astype(np.float32)
    truth = _truth(
        [wide(values).sum()], condition=float(values.sum(dtype=np.float64)), terms=blocked_terms(values.size)
    )
    downcast = values.astype(np.float16).astype(np.float64).sum() * 1.001
    assert _status(np.array([values.sum()], np.float32), truth) is Status.PASSED
    assert _status(np.array([downcast], np.float32), truth) is Status.WRONG_VALUE


def test_gamma_follows_highams_formula():
    assert gamma(0, "float32") == 0
    assert gamma(3, "float32") == pytest.approx(3 * 2**-24 / (1 - 3 * 2**-24), rel=1e-15)
    assert gamma(2**24, "float32") == np.inf


def test_chain_of_a_blocked_sum_is_far_shorter_than_the_sum():
    assert blocked_terms(1) == 2
    assert blocked_terms(2**20) == 1024 + 1024
    assert blocked_terms(0) == 0


def test_truth_has_more_bits_than_the_tested_type():
    assert wide(np.ones(1, np.float32)).dtype == np.float64
    assert np.finfo(wide(np.ones(1)).dtype).nmant >= np.finfo(np.float64).nmant


class TestDiscontinuity:
    """Two outputs, as of a threshold: value and flag. The second of three elements is undecided."""

    fires = (Expected(np.array([9.0, 9.0, 1.0]), np.dtype(np.float32), np.full(3, 1e-6)), exact(np.array([1, 1, 0])))
    rests = (Expected(np.array([0.5, 0.7, 9.0]), np.dtype(np.float32), np.full(3, 1e-6)), exact(np.array([0, 0, 1])))
    truth = Truth(fires, rests, np.array([False, True, False]))

    def _status(self, values, flags):
        return judge([np.array(values, np.float32), np.array(flags)], self.truth).status

    def test_either_branch_is_right_where_undecided(self):
        assert self._status([9, 9, 1], [1, 1, 0]) is Status.PASSED
        assert self._status([9, 0.7, 1], [1, 0, 0]) is Status.PASSED

    def test_outputs_must_take_the_same_branch(self):
        assert self._status([9, 0.7, 1], [1, 1, 0]) is Status.WRONG_VALUE
        assert self._status([9, 9, 1], [1, 0, 0]) is Status.WRONG_VALUE

    def test_other_branch_is_wrong_where_decided(self):
        assert self._status([0.5, 9, 1], [0, 1, 0]) is Status.WRONG_VALUE


def test_empty_output_passes():
    assert _status(np.zeros(0, np.float32), _truth(np.zeros(0), ulps=1)) is Status.PASSED
