"""The published schema of records: it is current, complete, and right about what is written and what is refused."""

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest

import reports.records
from reports.records.codec import decode, encode
from reports.records.json_schema import FILE, fields_documentation, line_schema, schema_text
from reports.records.measurements import Accuracy
from reports.records.record import SCHEMA
from reports.records.run_file import Completeness, load_run
from suites.unit.reports.builders import make_cell, make_pair, make_record, whole
from suites.unit.structure.house import PROJECT

RUNS = sorted((PROJECT / "reports/published").glob("*/*.jsonl.gz"))


def lines(path):
    with gzip.open(path) as file:
        return list(file)


def version(path):
    with gzip.open(path) as file:
        return json.loads(file.readline())["schema"]


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(line_schema())
    return jsonschema.Draft202012Validator(line_schema())


def test_the_published_schema_is_current():
    file = Path(reports.records.__file__).with_name(FILE)
    assert file.read_text(encoding="utf-8") == schema_text(), "run: python -m reports.records.json_schema"


def test_every_field_is_described():
    for name, part in line_schema()["$defs"].items():
        for field, own in part.get("properties", {}).items():
            assert own.get("description"), f"{name}.{field}"
    shown = fields_documentation()
    assert "| `samples_ns` | list of number |" in shown
    assert "any" not in re.findall(r"\| ([a-z]+) \|", shown)


def test_there_is_a_published_run_of_every_version():
    assert {version(path) for path in RUNS} == set(range(1, SCHEMA + 1))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name.partition(".")[0])
def test_every_published_record_of_every_version_loads_and_can_be_written_again(path):
    run = load_run(path)
    assert run.problems == []
    written = version(path)
    assert run.completeness is (Completeness.UNKNOWN if written < 3 else Completeness.COMPLETE)
    assert {record.schema for record in run.records} == {SCHEMA}
    assert len(run.records) == len(lines(path)) - (0 if written < 3 else 2 * run.begins)
    assert decode(encode(run.records[0])) == run.records[0]


@pytest.mark.parametrize("path", [path for path in RUNS if version(path) == SCHEMA], ids=lambda path: path.name[:20])
def test_the_schema_accepts_every_published_line(validator, path):
    for line in lines(path):
        validator.validate(json.loads(line))


def test_the_schema_accepts_whatever_is_written(validator):
    odd = Accuracy(max_ulp=float("inf"), budget_used=float("nan"), got="1+2j", truth=float("-inf"), worst_index=[3])
    records = [*make_pair(1000.0, 2000.0), make_record(make_cell(params={"share": 0.5, "kind": "x"}), accuracy=odd)]
    for line in whole(records).splitlines():
        validator.validate(json.loads(line))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": SCHEMA - 1}, {"kind": "other"}, {"status": "FINE"}, {"size": 3}, {"seed": "1"}, {"index": None},
        {"cell": {}}, {"timing": {"method": "wall"}}, {"shapes": [["x"]]},
    ],
    ids=str,
)  # fmt: skip
def test_the_schema_refuses_what_the_reader_refuses(validator, change):
    fields = {**json.loads(encode(make_record())), **change}
    assert list(validator.iter_errors(fields))
    if change != {"schema": SCHEMA - 1}:  # an older version is read
        with pytest.raises(ValueError, match=r"."):
            decode(msgspec.json.encode(fields))
