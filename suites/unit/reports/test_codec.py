"""Records as lines of JSON."""

import json
import math

import numpy as np
import pytest

from reports.errors import RecordError
from reports.records.codec import decode, encode
from reports.records.measurements import Accuracy, Stages
from reports.records.record import SCHEMA
from reports.records.status import Status
from suites.unit.reports.builders import make_cell, make_record


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
