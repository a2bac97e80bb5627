"""Invariants, identity and derived quantities of a record."""

import math

import pytest

from reports.errors import RecordError
from reports.records.cell import short_dtype
from reports.records.record import last_by_cell
from reports.records.status import Status
from suites.unit.reports.builders import GPU, make_cell, make_record, make_run, make_timing


@pytest.mark.parametrize("reason", [None, "", "  \n"])
def test_what_did_not_pass_needs_a_reason(reason):
    with pytest.raises(RecordError, match=r"lif_step-numba-f32-4096-cpu: status CRASHED without a reason"):
        make_record(status=Status.CRASHED, reason=reason)


def test_the_header_describes_the_device_of_the_cell():
    with pytest.raises(RecordError, match="Give each device its own Run"):
        make_record(make_cell(platform="cpu"), run=make_run(device=GPU))


@pytest.mark.parametrize("time", ["yesterday", "2026-11-20T19:01:03", "2026-11-20T19:01:03+02:00"])
def test_times_are_utc(time):
    with pytest.raises(RecordError, match="expected ISO 8601 in UTC"):
        make_record(time=time)
    with pytest.raises(RecordError, match="expected ISO 8601 in UTC"):
        make_run(started=time)


@pytest.mark.parametrize("changes", [{"bandwidth_limit": None}, {"bandwidth_limit_kind": ""}])
def test_a_limit_says_what_was_measured(changes):
    with pytest.raises(RecordError, match="Pass both"):
        make_record(**changes)


def test_keys_of_nan_parameters_are_equal():
    assert make_cell(params={"k": math.nan}).key == make_cell(params={"k": float("nan")}).key


def test_the_last_record_of_a_cell_wins_within_its_run():
    first = make_record(status=Status.TIMEOUT)
    retried = make_record(index=1)
    elsewhere = make_record(run=make_run(run_id="other"))
    assert last_by_cell([first, elsewhere, retried]) == [retried, elsewhere]
    wrong = make_record(status=Status.WRONG_VALUE)
    assert last_by_cell([wrong, retried]) == [wrong], "a wrong result stays"


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"samples_ns": []}, "no samples"), ({"loops": 0}, "loops=0"),
     *(({"samples_ns": [1.0, time]}, "expected finite times above zero") for time in (0.0, -1.0, math.nan, math.inf))],
)  # fmt: skip
def test_a_timing_has_samples_that_are_times_of_calls(changes, words):
    with pytest.raises(RecordError, match=words):
        make_timing(**changes)


NO_LIMIT = {"bandwidth_limit": None, "bandwidth_limit_kind": None}


@pytest.mark.parametrize(
    ("facts", "bandwidth", "share", "rate"),
    [
        ({"flops": 2000}, 4e9, 0.4, 2e9),
        # What is impossible is not hidden.
        ({"median_ns": 100.0}, 4e10, 4.0, None),
        ({"status": Status.TIMEOUT}, None, None, None),
        (NO_LIMIT, 4e9, None, None),
    ],
)
def test_rates_are_declared_work_over_the_median_and_shares_refer_to_the_limit(facts, bandwidth, share, rate):
    record = make_record(**facts)
    for found, wanted in ((record.bandwidth, bandwidth), (record.bandwidth_share, share), (record.flop_rate, rate)):
        assert found == (None if wanted is None else pytest.approx(wanted))


def test_ids_read_aloud_with_short_names_of_dtypes():
    assert make_cell().id == "lif_step-numba-f32-4096-cpu"
    assert make_cell(mode="vjp", dtype="bfloat16").id == "lif_step-numba-bf16-4096-cpu-vjp"
    names = "float64 int8 uint64 complex128 bool float8_e4m3fn f32"
    assert [*map(short_dtype, names.split())] == ["f64", "i8", "u64", "c128", "bool", "float8_e4m3fn", "f32"]


def test_every_field_of_a_cell_tells_it_apart_and_the_order_of_parameters_does_not():
    changes = [
        {}, {"operator": "saxpy"}, {"operator_version": 2}, {"backend": "warp"}, {"mode": "vjp"}, {"platform": "cuda"},
        {"dtype": "float16"}, {"size": 1}, {"params": {"k": 1}}, {"params": {"k": True}}, {"params": {"a": 1, "b": 2}},
    ]  # fmt: skip
    assert len({make_cell(**each).key for each in changes}) == len(changes)
    assert make_cell(params={"b": 2, "a": 1}).key == make_cell(params={"a": 1, "b": 2}).key
