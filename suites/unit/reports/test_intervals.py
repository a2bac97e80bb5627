"""Ratios with intervals, ties, and geometric means across processes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.intervals import ratio_of
from reports.statistics.means import GeometricMean, geometric_mean

TIMES = st.floats(1e-3, 1e12)


def several(least=3, most=9):
    return st.lists(TIMES, min_size=least, max_size=most)


@pytest.mark.parametrize(
    ("ours", "theirs", "value", "paired"),
    [
        ([2.0, 4.0, 30.0], [1.0, 2.0, 10.0], 2.0, (2.0, 2.0, 3.0)),
        ([2.0], [1.0], 2.0, None),
        ([2.0, 2.0], [1.0, 1.0], 2.0, None),
        ([1.0, 1.1, 1.2], [2.0, 2.1, 1.9, 2.05, 1.8], 0.55, None),
    ],
    ids=["three", "one", "two", "different numbers"],
)
def test_the_ratio_is_the_median_and_has_an_interval_from_three_processes_in_pairs(ours, theirs, value, paired):
    found = ratio_of(ours, theirs)
    assert found.value == value
    assert (found.low is None) is (paired is None)
    assert paired is None or found.paired == paired
    assert paired or (found.is_tie(0.0), found.is_above) == (True, False)


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


def ratio(*paired):
    return ratio_of(paired, [1.0] * len(paired))


def test_the_mean_of_one_cell_is_that_cell():
    """Its median, not the geometric mean of its processes: one number for one quantity."""
    own = ratio(1.0, 1.1, 2.5)
    assert geometric_mean([own]) == GeometricMean(own.value, 1, own.low, own.high)
    assert geometric_mean([]) == GeometricMean(None, 0)


def test_cells_of_other_sessions_are_independent():
    one, other = ratio(1.0, 1.2, 1.1), ratio(1.0, 1.2, 1.1)
    together, apart = geometric_mean([one, other]), geometric_mean([one, other], ["a", "b"])
    assert apart.low > together.low
    assert geometric_mean([one, ratio(1.0, 1.0)]).low is None
