"""Records as lines of JSON."""

import json
import math

import numpy as np
import pytest
from msgspec import structs

from reports.errors import DamagedLine, NewerSchema, RecordError
from reports.records.codec import decode, encode
from reports.records.measurements import Accuracy, DispatchFacts, Resources, Stages
from reports.records.record import SCHEMA
from reports.records.status import Status
from suites.unit.reports.builders import HOST, make_cell, make_record, make_run


def changed_line(**changes):
    return json.dumps({**json.loads(encode(make_record())), **changes}).encode()


def test_a_record_survives_a_round_trip():
    record = make_record(make_cell(params={"a": 1, "b": 1.0, "c": True, "d": None, "e": "x"}), flops=7)
    again = decode(encode(record))
    assert again == record
    assert [type(value) for value in again.cell.params.values()] == [int, float, bool, type(None), str]


def test_a_line_stands_alone():
    line = encode(make_record())
    assert b"\n" not in line
    fields = json.loads(line)
    assert fields["schema"] == SCHEMA
    assert fields["run"]["device"]["platform"] == "cpu"


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinities_survive_and_the_line_stays_json(value):
    record = make_record(accuracy=Accuracy(max_ulp=math.inf, got=value, truth=1.5))
    # Strict parsers, unlike Python's, know no NaN and no Infinity.
    json.loads(encode(record), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert decode(encode(record)).accuracy == record.accuracy


def test_nan_survives_where_none_means_not_measured():
    record = make_record(make_cell(params={"fill": math.nan}), accuracy=Accuracy(got=math.nan, truth=None))
    again = decode(encode(record))
    assert math.isnan(again.accuracy.got)
    assert again.accuracy.truth is None
    assert math.isnan(again.cell.params["fill"])


def test_a_reason_that_says_nan_stays_text():
    assert decode(encode(make_record(status=Status.WRONG_VALUE, reason="NaN"))).reason == "NaN"


def test_numpy_scalars_become_plain_numbers():
    record = make_record(
        make_cell(params={"density": np.float32(0.5)}),
        seed=np.int64(3),
        accuracy=Accuracy(max_ulp=np.float64("nan"), worst_index=[np.int32(4)]),
    )
    again = decode(encode(record))
    assert again.seed == 3
    assert again.cell.params == {"density": 0.5}
    assert math.isnan(again.accuracy.max_ulp)
    assert again.accuracy.worst_index == [4]


def test_what_json_cannot_hold_is_refused_before_it_is_written():
    with pytest.raises(RecordError, match="lif_step-numba-f32-4096-cpu: a value of type object"):
        encode(make_record(make_cell(params={"k": object()})))
    with pytest.raises(RecordError, match="seed"):
        encode(make_record(seed="zero"))


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (make_record(bytes=-1), "bytes"), (make_record(flops=-1), "flops"), (make_record(index=-1), "index"),
        *((make_record(bandwidth_limit=rate), "bandwidth_limit") for rate in (0.0, -1.0, math.nan, math.inf)),
        *((make_record(stages=Stages(compile_ms=ms)), "stages.compile_ms") for ms in (-0.5, math.nan)),
        (make_record(resources=Resources(host_bytes=-1)), "resources.host_bytes"),
        *((make_record(run=make_run(host=structs.replace(HOST, load=load))), "run.host.load")
          for load in (-1.0, math.inf)),
        *((make_record(dispatch=DispatchFacts(title="a", mode_title="b", reference="c", limits={"d": limit})),
           "dispatch.limits") for limit in (0.0, math.nan)),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused_before_it_is_written(record, place):
    with pytest.raises(RecordError, match=rf"Expected `.*at `\$\.{place}"):
        encode(record)


def test_a_newer_schema_is_refused_with_advice():
    with pytest.raises(NewerSchema, match=rf"schema {SCHEMA + 1}.*reads up to schema {SCHEMA}.*Upgrade"):
        decode(changed_line(schema=SCHEMA + 1, something_new=1))


def old_line(**changes):
    """A line of schema 1, which had one copy bandwidth per run."""
    fields = json.loads(encode(make_record(bandwidth_limit=None, bandwidth_limit_kind=None)))
    del fields["kind"]
    run = {**fields["run"], "copy_bandwidth": 1e10}
    return json.dumps({**fields, "schema": 1, "run": run, **changes}).encode()


@pytest.mark.parametrize("line", [b"[]", b"1", b"{}", b'{"schema": "1"}'])
def test_json_that_is_no_record_is_refused(line):
    with pytest.raises(RecordError, match="integer 'schema'"):
        decode(line)


def test_unknown_and_contradictory_fields_are_refused():
    with pytest.raises(RecordError, match="unknown field `surprise`"):
        decode(changed_line(surprise=1))
    with pytest.raises(RecordError, match="A time exists only for a cell that passed"):
        decode(changed_line(status="OOM", reason="too big"))
    with pytest.raises(RecordError, match="status"):
        decode(changed_line(status="GREAT"))


def test_every_beginning_of_a_line_is_damaged():
    line = encode(make_record(run=make_run(profile="µ")))
    for length in range(1, len(line)):
        with pytest.raises(DamagedLine):
            decode(line[:length])
