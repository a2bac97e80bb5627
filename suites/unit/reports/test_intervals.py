"""Ratios with intervals, ties, and geometric means across processes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_ind

from reports.statistics.intervals import ratio_of, t_quantile
from reports.statistics.means import geometric_mean, mean_across_processes
from reports.statistics.ties import fastest

TIMES = st.floats(1e-3, 1e12)


def several(least=3, most=9):
    return st.lists(TIMES, min_size=least, max_size=most)


def test_the_ratio_is_the_median_over_processes():
    found = ratio_of([2.0, 4.0, 30.0], [1.0, 2.0, 10.0])
    assert found.value == 2.0
    assert found.paired == (2.0, 2.0, 3.0)


def test_the_interval_is_students_t_on_logarithms():
    found = ratio_of([1.0, 1.1, 1.3, 1.2], [1.0, 1.0, 1.0, 1.0])
    logarithms = np.log([1.0, 1.1, 1.3, 1.2])
    ends = student.interval(0.95, 3, logarithms.mean(), logarithms.std(ddof=1) / 2)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(ends)))


def test_what_a_process_does_to_both_cancels():
    """A clock that is slow in one process slows both cells."""
    slow = np.array([1.0, 3.0, 0.5, 2.0])
    found = ratio_of(list(2 * slow), list(slow))
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_processes_give_no_interval(count):
    found = ratio_of([2.0] * count, [1.0] * count)
    assert (found.value, found.low, found.high) == (2.0, None, None)
    assert found.is_tie(0.0)
    assert not found.is_above


def test_different_processes_give_welchs_interval():
    ours, theirs = [1.0, 1.1, 1.2], [2.0, 2.1, 1.9, 2.05, 1.8]
    found = ratio_of(ours, theirs)
    ends = ttest_ind(np.log(ours), np.log(theirs), equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert found.paired is None
    assert ratio_of([1.0, 1.0], theirs).low is None


@given(several(1), several(1))
def test_swapped_sides_give_the_inverse(ours, theirs):
    one, other = ratio_of(ours, theirs), ratio_of(theirs, ours)
    if len(ours) % 2 and len(theirs) % 2:
        assert one.value == pytest.approx(1 / other.value, rel=1e-9)
    assert (one.low is None) == (other.low is None)
    assert one.is_tie(0.0) == other.is_tie(0.0) or not len(ours) % 2 or not len(theirs) % 2


@given(several(3), st.floats(1e-6, 1e6))
def test_the_unit_of_time_does_not_matter(ours, scale):
    one, other = ratio_of(ours, ours[::-1]), ratio_of([scale * x for x in ours], [scale * x for x in ours[::-1]])
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), rel=1e-6)


@given(several(1), several(1))
def test_the_interval_includes_the_ratio(ours, theirs):
    found = ratio_of(ours, theirs)
    if found.low is not None:
        assert found.low <= found.value <= found.high


@pytest.mark.parametrize("count", [3, 5, 8])
def test_the_interval_covers_the_true_ratio_in_95_percent(count):
    random = np.random.default_rng(count)
    found = [
        ratio_of(np.exp(0.3 + 0.02 * random.standard_normal(count)), np.exp(0.02 * random.standard_normal(count)))
        for _ in range(2000)
    ]
    covered = np.mean([each.low <= math.exp(0.3) <= each.high for each in found])
    # Three standard deviations of a share of 2,000 are 1.5 %.
    assert covered == pytest.approx(0.95, abs=0.015)


def test_the_quantile_is_that_of_student():
    assert t_quantile(4) == pytest.approx(2.776, abs=1e-3)


def noisy(random, median, deviation=0.01, count=5):
    return list(median * np.exp(deviation * random.standard_normal(count)))


def test_the_fastest_comes_first_and_ties_follow():
    random = np.random.default_rng(0)
    times = [noisy(random, 2.0), noisy(random, 1.001), noisy(random, 1.0), noisy(random, 1.5)]
    assert sorted(fastest(times, 0.02)) == [1, 2]
    assert fastest([[2.0] * 3, [1.0] * 3], 0.02) == [1]
    assert fastest([[1.01] * 3, [1.0] * 3], 0.02) == [1, 0], "certain, but below the smallest effect"


@pytest.mark.parametrize("times", [[], [[1.0] * 5], [[1.0], [2.0]], [[1.0] * 5, [2.0] * 2]])
def test_nobody_wins_alone_or_by_few_processes(times):
    assert fastest(times, 0.02) == []


def test_equal_backends_rarely_have_a_sole_winner():
    random = np.random.default_rng(1)
    alone = [len(fastest([noisy(random, 1.0, 0.03) for _ in range(2)], 0.02)) == 1 for _ in range(1000)]
    assert np.mean(alone) < 0.06


def test_a_mean_without_processes_has_a_count_and_losses():
    found = geometric_mean([2.0, 0.5, None, 4.0])
    assert (found.mean, found.count, found.losses) == (pytest.approx(4 ** (1 / 3)), 3, 2)
    assert (found.low, found.high) == (None, None)


@given(st.lists(several(4, 4), min_size=1, max_size=6))
def test_the_mean_across_processes_is_the_mean_over_cells(cells):
    found = mean_across_processes(cells)
    means = [geometric_mean(own).mean for own in cells]
    assert found.mean == pytest.approx(geometric_mean(means).mean)
    assert found.low <= found.mean * (1 + 1e-9)
    assert found.high >= found.mean * (1 - 1e-9)
    assert found.count == len(cells)


def test_its_interval_is_students_t_of_the_means_of_processes():
    cells = [[1.0, 1.2, 1.1, 0.9], [2.0, 2.2, 2.4, 1.9]]
    means = np.log(np.array(cells)).mean(axis=0)
    ends = student.interval(0.95, 3, means.mean(), means.std(ddof=1) / 2)
    found = mean_across_processes(cells)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(ends)))


def test_a_process_that_slows_every_cell_counts_once():
    """Twenty cells that share their noise know no more than one."""
    shared = [1.0, 1.1, 0.9, 1.05, 0.97]
    one, many = mean_across_processes([shared]), mean_across_processes([shared] * 20)
    assert (one.low, one.high) == pytest.approx((many.low, many.high))


def test_cells_of_other_sessions_are_independent():
    one, other = [1.0, 1.1, 0.9, 1.05], [2.0, 2.1, 1.9]
    both = mean_across_processes([one, other])
    assert both.count == 2
    assert both.low < both.mean < both.high
    without = mean_across_processes([one, [2.0]])
    assert (without.count, without.low) == (2, None)


def test_no_cells_have_no_mean():
    assert mean_across_processes([]).mean is None
