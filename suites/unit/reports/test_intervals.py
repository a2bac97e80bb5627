"""Ratios with intervals, ties, and geometric means across processes."""

import math
import random

import numpy as np
import pytest

from reports.pages.rows import cell_rows
from reports.records.header import Source
from reports.statistics.intervals import ratio_of
from reports.statistics.lasting_changes import lasting_changes
from reports.statistics.means import GeometricMean, geometric_mean
from reports.web.lasting import lasting_list
from suites.unit.reports.builders import make_cell, make_record, make_run, make_timing


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


# Changes over many runs: which commit they begin with, and that noise is none.


def noisy(levels, spread=0.01, seed=0):
    noise = random.Random(seed)
    return [1000.0 * level * noise.gauss(1, spread) for level in levels]


def test_a_step_is_named_by_its_first_run():
    (change,) = lasting_changes(noisy([1.0] * 8 + [1.2] * 6), 0.05)
    assert change.index == 8
    assert change.ratio == pytest.approx(1.2, rel=0.02)


def test_a_page_of_many_cells_needs_more_certainty():
    times = noisy([1.0] * 8 + [1.04] * 8)
    assert [len(lasting_changes(times, 0.02, cells)) for cells in (1, 10**9)] == [1, 0]


def test_ten_changes_of_two_percent_are_seen():
    found = lasting_changes(noisy([1.02 ** min(max(number - 10, 0), 10) for number in range(30)]), 0.05)
    assert found
    assert all(10 < change.index < 21 for change in found)
    assert math.prod(change.ratio for change in found) == pytest.approx(1.02**10, rel=0.05)


def test_one_slow_run_is_no_change_and_two_steps_are_two():
    assert lasting_changes(noisy([1.0] * 8 + [1.5] + [1.0] * 8), 0.05) == []
    assert lasting_changes(noisy([1.0] * 8 + [1.5] * 2), 0.05) == [], "whether it stays is not known yet"
    assert [one.index for one in lasting_changes(noisy([1.0] * 8 + [1.5] * 8 + [1.0] * 8), 0.05)] == [8, 16]


def test_noise_alone_is_hardly_ever_a_change():
    alarms = sum(bool(lasting_changes(noisy([1.0] * 20, spread=0.1, seed=seed), 0.05)) for seed in range(1000))
    assert alarms <= 20


def test_the_page_names_the_commit():
    records = []
    for number, ns in enumerate(noisy([1.0] * 6 + [0.5] * 6)):
        run = make_run(
            run_id=f"202611{number + 10}T000000-aaaa", started=f"2026-11-{number + 10}T00:00:00+00:00",
            source=Source(commit=f"{number:02d}" + "a" * 38, dirty=False),
        )  # fmt: skip
        records.append(make_record(make_cell(), run=run, timing=make_timing(ns)))
    said = str(lasting_list(cell_rows(records)))
    assert "lif_step-numba-f32-4096-cpu: 0.50" in said
    assert "since 06aaaaaaaaaa (2026-11-16)" in said
    assert lasting_list(cell_rows(records[:6])) is None
