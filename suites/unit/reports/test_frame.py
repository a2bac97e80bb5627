"""Records as a DataFrame."""

import math

import pytest

from reports.pages.frame import COLUMNS, to_frame, with_ratio
from reports.records.record import Status
from suites.unit.reports.builders import make_cell, make_pair, make_record, make_run, make_timing


def test_a_row_per_cell_with_every_column():
    frame = to_frame(make_pair(1000.0, 500.0))
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["median_ns"]) == [1000.0, 500.0]
    assert list(frame["cell_id"]) == ["lif_step-jnp-f32-4096-cpu", "lif_step-numba-f32-4096-cpu"]


def test_every_column_is_filled_by_some_record():
    run = make_run(peak_flops=1e9)
    full = to_frame([make_record(run=run, flops=1, peak_memory_bytes=1)]).iloc[0]
    never_on_cpu = {"device_uuid", "driver", "cuda", "reason"}
    empty = {name for name in COLUMNS if full[name] is None or full[name] != full[name]}
    assert empty == never_on_cpu | {"first_call_ms"}


def test_no_records_make_an_empty_frame_with_the_same_columns():
    frame = to_frame([])
    assert frame.empty
    assert tuple(frame.columns) == COLUMNS
    assert frame["median_ns"].dtype == "float64"


def test_a_failure_is_a_row_without_a_time_never_zero():
    frame = to_frame([make_record(status=Status.CRASHED, reason="signal 11")])
    row = frame.iloc[0]
    assert (row["status"], row["reason"]) == ("CRASHED", "signal 11")
    times = row[["median_ns", "p20_ns", "p80_ns", "compile_ms", "bandwidth", "bandwidth_share"]]
    assert times.isna().all()


def test_the_limit_is_that_of_the_cell_else_that_of_the_run():
    own = make_record(make_cell(size=1), bandwidth_limit=8e9, bandwidth_limit_kind="read, L2 cache")
    unmeasured = make_record(make_cell(size=2), run=make_run(copy_bandwidth=None))
    frame = to_frame([own, make_record(), unmeasured])
    assert list(frame["bandwidth_limit"][:2]) == [8e9, 1e10]
    assert list(frame["bandwidth_limit_kind"][:2]) == ["read, L2 cache", "copy"]
    assert frame[["bandwidth_limit", "bandwidth_limit_kind", "bandwidth_share"]].iloc[2].isna().all()


def test_the_last_attempt_at_a_cell_wins():
    frame = to_frame([make_record(status=Status.TIMEOUT), make_record(index=1, median_ns=7.0)])
    assert list(frame["status"]) == ["PASSED"]
    assert list(frame["median_ns"]) == [7.0]


def test_ratios_refer_to_the_baseline():
    frame = with_ratio(to_frame(make_pair(1000.0, 500.0)))
    assert list(frame["ratio"]) == [1.0, 0.5]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"shapes": [[4095]]},
        {"timing": make_timing(method="cupti")},
        {"timing": make_timing(cache="hot")},
        {"status": Status.WRONG_VALUE},
    ],
)
def test_there_is_no_ratio_to_a_baseline_of_other_conditions(changes):
    baseline = make_record(make_cell(backend="jnp"), **changes)
    frame = with_ratio(to_frame([baseline, make_record()]))
    assert math.isnan(frame["ratio"].iloc[1])


def test_a_failed_cell_has_no_ratio():
    frame = with_ratio(to_frame([make_record(make_cell(backend="jnp")), make_record(status=Status.OOM)]))
    assert math.isnan(frame["ratio"].iloc[1])


def test_runs_do_not_lend_each_other_a_baseline():
    records = [make_record(make_cell(backend="jnp"), run=make_run(run_id="other")), make_record()]
    assert math.isnan(with_ratio(to_frame(records))["ratio"].iloc[1])
