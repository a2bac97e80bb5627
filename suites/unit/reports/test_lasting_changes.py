"""Changes over many runs: which commit they begin with, and that noise is none."""

import random

import pytest

from reports.pages.rows import cell_rows
from reports.records.header import Source
from reports.statistics.lasting_changes import lasting_changes
from reports.web.lasting import lasting_list
from suites.unit.reports.builders import make_cell, make_record, make_run, make_timing


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
    total = 1.0
    for change in found:
        total *= change.ratio
    assert total == pytest.approx(1.02**10, rel=0.05)


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
