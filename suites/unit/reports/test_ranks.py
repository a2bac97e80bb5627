"""Exact tests by ranks, the shift between two sets and its interval, and the noise floor."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from reports.statistics.noise import noise_floor
from reports.statistics.ranks import (
    least_processes,
    one_sided,
    pairs_tail,
    processes_needed,
    shift,
    shift_interval,
    smallest_p,
)


def sets(least=1, most=9):
    """Two sets of numbers, of which no two are equal."""
    number = st.integers(-1000, 1000).map(float)
    return st.lists(number, min_size=2 * least, max_size=2 * most, unique=True).flatmap(
        lambda both: st.integers(least, len(both) - least).map(lambda cut: (both[:cut], both[cut:]))
    )


@given(sets())
def test_the_tests_are_those_of_scipy(two):
    base, head = two
    slower, faster = one_sided(*(np.array([side]) for side in two))
    for ours, alternative in ((slower, "greater"), (faster, "less")):
        theirs = mannwhitneyu(head, base, alternative=alternative, method="exact").pvalue
        assert ours[0] == pytest.approx(theirs, rel=1e-12)


@given(st.integers(1, 12), st.integers(1, 12))
def test_the_greatest_number_of_pairs_has_one_order_of_all(base, head):
    tail = pairs_tail(base, head)
    assert tail[0] == 1.0
    assert tail[-1] == pytest.approx(1 / math.comb(base + head, head), rel=1e-12)
    assert tail[-1] == smallest_p(base, head)
    assert (np.diff(tail) < 0).all()


def test_equal_numbers_are_no_evidence():
    slower, faster = one_sided(np.ones((1, 6)), np.ones((1, 6)))
    assert (slower[0], faster[0]) == (1.0, 1.0)
    mixed = one_sided(np.array([[1.0, 2.0, 3.0]]), np.array([[3.0, 4.0, 5.0]]))[0][0]
    assert mixed == pytest.approx(pairs_tail(3, 3)[8]), "the tie counts as a pair that head loses"


@given(sets(least=4))
def test_the_interval_is_what_the_test_does_not_reject(two):
    base, head = (np.array([side]) for side in two)
    low, high = shift_interval(base, head)
    middle = shift(base, head)
    assert low[0] <= middle[0] <= high[0]
    for moved, rejected in ((low - 0.25, True), (low + 0.25, False), (high - 0.25, False), (high + 0.25, True)):
        p = 2 * min(side[0] for side in one_sided(base + moved[0], head))
        if low[0] < high[0]:
            assert bool(p <= 0.05) is rejected


@given(sets(least=4), st.floats(-5, 5))
def test_swapped_sides_mirror_everything(two, moved):
    base, head = (np.array([side]) for side in two)
    assert shift(base, head) == -shift(head, base)
    assert shift_interval(base, head)[0] == -shift_interval(head, base)[1]
    assert one_sided(base, head) == one_sided(head, base)[::-1]
    assert noise_floor(base, head) == pytest.approx(noise_floor(head, base))
    assert noise_floor(base + moved, head) == pytest.approx(noise_floor(base, head), abs=1e-9), "the shift is no noise"


def test_too_few_processes_have_an_endless_interval():
    low, high = shift_interval(np.zeros((2, 3)), np.ones((2, 3)))
    assert (low == -np.inf).all()
    assert (high == np.inf).all()
    assert least_processes() == 4


@pytest.mark.parametrize("count", [4, 5, 8, 12])
def test_the_interval_covers_the_shift_in_at_least_95_percent(count):
    random = np.random.default_rng(count)
    base, head = random.standard_t(3, (4000, count)), 0.7 + random.standard_t(3, (4000, count))
    low, high = shift_interval(base, head)
    covered = ((low <= 0.7) & (high >= 0.7)).mean()
    # Three standard deviations of a share of 4,000 are 1 %.
    assert 0.94 <= covered <= 1 - 2 * smallest_p(count, count) + 0.01


@pytest.mark.parametrize(("cells", "processes"), [(1, 5), (10, 7), (50, 8), (115, 8), (577, 10)])
def test_more_cells_need_more_processes(cells, processes):
    assert processes_needed(cells, 0.02) == processes
    assert smallest_p(processes, processes) <= 0.02 / (2 * cells) < smallest_p(processes - 1, processes - 1)


@pytest.mark.parametrize(("cells", "q"), [(0, 0.05), (3, 0.0), (3, 1.0)])
def test_impossible_questions_are_errors(cells, q):
    with pytest.raises(ValueError, match="expected at least one cell"):
        processes_needed(cells, q)


@pytest.mark.parametrize(("count", "deviation"), [(4, 0.01), (7, 0.03), (8, 0.01), (16, 0.002)])
def test_the_floor_is_the_standard_error_of_the_shift(count, deviation):
    random = np.random.default_rng(0)
    base, head = (deviation * random.standard_normal((1000, count)) for _ in range(2))
    found = np.median(noise_floor(base, head))
    # Few processes know their spread badly; the floor is right on average.
    assert found == pytest.approx(deviation * math.sqrt(2 / count), rel=0.25)


def test_one_disturbed_process_does_not_raise_the_floor_much():
    random = np.random.default_rng(0)
    base, head = (0.01 * random.standard_normal((1, 8)) for _ in range(2))
    quiet = noise_floor(base, head)[0]
    base[0, 3] += 5.0
    assert noise_floor(base, head)[0] < 3 * quiet


def test_one_process_of_each_side_has_no_floor():
    assert noise_floor(np.zeros((1, 1)), np.zeros((1, 1)))[0] == np.inf


@pytest.mark.parametrize("count", [2, 3, 10, 31, 60])
def test_a_floor_takes_few_splits_however_many_processes(count):
    assert noise_floor(np.zeros((1, count)), np.zeros((1, 2)))[0] == 0
