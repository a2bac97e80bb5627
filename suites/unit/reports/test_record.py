"""Invariants, identity and derived quantities of a record."""

import math

import msgspec
import pytest

from reports.errors import RecordError
from reports.records.cell import short_dtype
from reports.records.record import last_by_cell
from reports.records.status import Status
from suites.unit.reports.builders import GPU, make_cell, make_record, make_run, make_timing


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_a_time_exists_only_for_a_cell_that_passed(status):
    with pytest.raises(RecordError, match="A time exists only for a cell that passed"):
        make_record(status=status, timing=make_timing())


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


def test_a_timing_without_samples_is_refused():
    with pytest.raises(RecordError, match="no samples"):
        make_timing(samples_ns=[])


@pytest.mark.parametrize("sample", [0.0, -1.0, math.nan, math.inf])
def test_a_sample_is_a_finite_time_above_zero(sample):
    with pytest.raises(RecordError, match="expected finite times above zero"):
        make_timing(samples_ns=[1.0, sample])


def test_a_sample_has_a_call():
    with pytest.raises(RecordError, match="loops=0"):
        make_timing(loops=0)


def test_bandwidth_is_declared_bytes_over_the_median():
    record = make_record(median_ns=1000.0, bytes=4000)
    assert record.bandwidth == pytest.approx(4e9)
    assert record.bandwidth_share == pytest.approx(0.4)


def test_a_share_compares_with_the_limit_of_the_cell():
    record = make_record(median_ns=1000.0, bytes=4000, bandwidth_limit=8e9, bandwidth_limit_kind="read, L2 cache")
    assert record.bandwidth_share == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"bandwidth_limit": 9e9},
        {"bandwidth_limit_kind": "copy, memory"},
        {"bandwidth_limit": 9e9, "bandwidth_limit_kind": ""},
    ],
)
def test_a_limit_says_what_was_measured(changes):
    with pytest.raises(RecordError, match="Pass both"):
        make_record(**{"bandwidth_limit": None, "bandwidth_limit_kind": None, **changes})


def test_an_impossible_bandwidth_is_not_hidden():
    assert make_record(median_ns=100.0, bytes=4000).bandwidth_share == pytest.approx(4.0)


def test_shares_are_unknown_without_their_parts():
    assert make_record(bytes=None).bandwidth is None
    assert make_record(status=Status.TIMEOUT).bandwidth is None
    assert make_record(bandwidth_limit=None, bandwidth_limit_kind=None).bandwidth_share is None


def test_a_rate_of_operations_is_declared_operations_over_the_median():
    assert make_record(median_ns=1000.0, flops=2000).flop_rate == pytest.approx(2e9)
    assert make_record(median_ns=1000.0).flop_rate is None


def test_ids_read_aloud():
    assert make_cell().id == "lif_step-numba-f32-4096-cpu"
    assert make_cell(mode="vjp", dtype="bfloat16").id == "lif_step-numba-bf16-4096-cpu-vjp"


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        *(("float16", "f16"), ("bfloat16", "bf16"), ("float64", "f64"), ("int8", "i8"), ("uint64", "u64")),
        *(("complex128", "c128"), ("bool", "bool"), ("float8_e4m3fn", "float8_e4m3fn"), ("f32", "f32")),
    ],
)
def test_dtypes_have_short_names(dtype, short):
    assert short_dtype(dtype) == short


def test_equal_cells_have_equal_keys_whatever_the_order_of_parameters():
    one = make_cell(params={"density": 0.1, "sorted": True})
    other = make_cell(params={"sorted": True, "density": 0.1})
    assert one.key == other.key
    assert len({one.key, other.key}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        *({"operator": "saxpy"}, {"operator_version": 2}, {"backend": "warp"}, {"mode": "vjp"}),
        *({"platform": "cuda"}, {"dtype": "float16"}, {"size": 1}, {"params": {"k": 1}}),
    ],
)
def test_every_field_of_a_cell_tells_it_apart(changes):
    assert make_cell(**changes).key != make_cell().key


def test_keys_tell_one_from_true():
    assert make_cell(params={"k": 1}).key != make_cell(params={"k": True}).key


def test_keys_of_nan_parameters_are_equal():
    assert make_cell(params={"k": math.nan}).key == make_cell(params={"k": float("nan")}).key


def test_the_last_record_of_a_cell_wins_within_its_run():
    first = make_record(status=Status.TIMEOUT)
    retried = make_record(index=1)
    elsewhere = make_record(run=make_run(run_id="other"))
    assert last_by_cell([first, elsewhere, retried]) == [retried, elsewhere]


def test_skipped_is_not_failed():
    assert not Status.SKIPPED.failed
    assert not Status.PASSED.failed
    assert Status.OOM.failed


def test_records_are_immutable():
    with pytest.raises(AttributeError):
        make_record().seed = 1
    with pytest.raises(TypeError):
        msgspec.structs.replace(make_record(), unknown=1)
