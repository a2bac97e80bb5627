"""Invariants, identity and derived quantities of a record."""

import json
import math

import numpy as np
import pytest

from reports.errors import RecordError
from reports.records.cell import short_dtype
from reports.records.codec import decode, encode
from reports.records.measurements import Accuracy, Stages
from reports.records.record import SCHEMA, last_by_cell
from reports.records.status import Status
from suites.unit.reports.builders import GPU, make_cell, make_record, make_run, make_timing


@pytest.mark.parametrize(
    ("make", "facts", "words"),
    [
        *((make_record, {"status": Status.CRASHED, "reason": reason}, "lif_step-.*: status CRASHED without a reason")
          for reason in (None, "", "  \n")),
        (make_record, {"run": make_run(device=GPU)}, "Give each device its own Run"),
        *((make, {name: time}, "expected ISO 8601 in UTC")
          for make, name in ((make_record, "time"), (make_run, "started"))
          for time in ("yesterday", "2026-11-20T19:01:03", "2026-11-20T19:01:03+02:00")),
        (make_record, {"bandwidth_limit": None}, "Pass both"),
        (make_record, {"bandwidth_limit_kind": ""}, "Pass both"),
        (make_timing, {"samples_ns": []}, "no samples"),
        (make_timing, {"loops": 0}, "loops=0"),
        *((make_timing, {"samples_ns": [1.0, time]}, "expected finite times above zero")
          for time in (0.0, -1.0, math.nan, math.inf)),
    ],
)  # fmt: skip
def test_facts_that_cannot_be_are_refused(make, facts, words):
    with pytest.raises(RecordError, match=words):
        make(**facts)


def test_the_last_record_of_a_cell_wins_within_its_run():
    first = make_record(status=Status.TIMEOUT)
    retried = make_record(index=1)
    elsewhere = make_record(run=make_run(run_id="other"))
    assert last_by_cell([first, elsewhere, retried]) == [retried, elsewhere]
    wrong = make_record(status=Status.WRONG_VALUE)
    assert last_by_cell([wrong, retried]) == [wrong], "a wrong result stays"


@pytest.mark.parametrize(
    ("facts", "bandwidth", "share", "rate"),
    [
        ({"flops": 2000}, 4e9, 0.4, 2e9),
        # What is impossible is not hidden.
        ({"median_ns": 100.0}, 4e10, 4.0, None),
        ({"status": Status.TIMEOUT}, None, None, None),
        ({"bandwidth_limit": None, "bandwidth_limit_kind": None}, 4e9, None, None),
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
    assert make_cell(params={"k": math.nan}).key == make_cell(params={"k": float("nan")}).key, "NaN is itself"


# Records as lines of JSON.


def changed_line(**changes):
    return json.dumps({**json.loads(encode(make_record())), **changes}).encode()


def test_a_record_survives_a_round_trip():
    record = make_record(make_cell(params={"a": 1, "b": 1.0, "c": True, "d": None, "e": "x"}), flops=7)
    again = decode(encode(record))
    assert again == record
    assert [type(value) for value in again.cell.params.values()] == [int, float, bool, type(None), str]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_without_digits_survive_and_the_line_stays_one_line_of_json(value):
    found = Accuracy(max_ulp=math.inf, got=value, truth=None)
    line = encode(make_record(make_cell(params={"fill": value}), accuracy=found))
    # Strict parsers, unlike Python's, know no NaN and no Infinity.
    fields = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (fields["schema"], b"\n" in line) == (SCHEMA, False)
    again = decode(line)
    for number in (again.accuracy.got, again.cell.params["fill"]):
        assert number == value or (math.isnan(number) and math.isnan(value))
    assert again.accuracy.truth is None
    assert decode(encode(make_record(status=Status.WRONG_VALUE, reason="NaN"))).reason == "NaN"


def test_numpy_scalars_become_plain_numbers():
    cell = make_cell(params={"density": np.float32(0.5)})
    accuracy = Accuracy(max_ulp=np.float64(2.0), worst_index=[np.int32(4)])
    again = decode(encode(make_record(cell, seed=np.int64(3), accuracy=accuracy)))
    assert (again.seed, again.cell.params) == (3, {"density": 0.5})
    assert again.accuracy == Accuracy(max_ulp=2.0, worst_index=[4])


def test_what_json_cannot_hold_is_refused_before_it_is_written():
    with pytest.raises(RecordError, match="lif_step-numba-f32-4096-cpu: a value of type object"):
        encode(make_record(make_cell(params={"k": object()})))
    with pytest.raises(RecordError, match="seed"):
        encode(make_record(seed="zero"))


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (make_record(bytes=-1), "bytes"),
        *((make_record(bandwidth_limit=rate), "bandwidth_limit") for rate in (0.0, -1.0, math.nan, math.inf)),
        (make_record(stages=Stages(compile_ms=-0.5)), "stages.compile_ms"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused_before_it_is_written(record, place):
    with pytest.raises(RecordError, match=rf"Expected `.*at `\$\.{place}"):
        encode(record)


def test_unknown_and_contradictory_fields_are_refused():
    with pytest.raises(RecordError, match="unknown field `surprise`"):
        decode(changed_line(surprise=1))
    with pytest.raises(RecordError, match="A time exists only for a cell that passed"):
        decode(changed_line(status="OOM", reason="too big"))
    with pytest.raises(RecordError, match="status"):
        decode(changed_line(status="GREAT"))
