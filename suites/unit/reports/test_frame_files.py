"""Numbers of a page, written to files."""

import csv
import json

import pandas as pd
import pytest

from reports.cli import main
from reports.errors import ReportError
from reports.options import Exit
from reports.pages.data_frame import JSON_COLUMNS, to_frame
from reports.render import frame_files
from reports.render.frame_files import check_export, export, frame_json
from suites.unit.reports.builders import make_cell, make_pair, make_record, whole


@pytest.fixture
def run(tmp_path):
    """A run file with two cells."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(whole(make_pair(1000.0, 500.0)))
    return path


def test_a_csv_file_has_all_columns(run, tmp_path, capsys):
    assert main(["show", str(run), "--export", str(tmp_path / "times.csv")]) == Exit.FINE
    assert "Time per call" in capsys.readouterr().out
    with (tmp_path / "times.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["median_ns"] for row in rows] == ["1000.0", "500.0"]
    assert [row["ratio"] for row in rows] == ["1.0", "0.5"]


def test_a_json_file_has_lists_and_null(run, tmp_path):
    assert main(["compare", str(run), str(run), "--export", str(tmp_path / "ratios.json")]) == Exit.FINE
    rows = json.loads((tmp_path / "ratios.json").read_text(encoding="utf-8"))
    assert [(row["ratio"], row["code"]) for row in rows] == [(None, "BASELINE"), (1.0, "WITHIN")]
    assert [row["base_processes"] for row in rows] == [5, 5]
    frame = to_frame([make_record(make_cell(params={"k": 1}), median_ns=None)])
    (row,) = json.loads(frame_json(frame, JSON_COLUMNS))
    assert (row["params"], row["shapes"], row["median_ns"]) == ({"k": 1}, [[4096]], None)


def test_a_parquet_file_reads_as_the_same_frame(run, tmp_path):
    pytest.importorskip("pyarrow")
    assert main(["show", str(run), "--export", str(tmp_path / "times.parquet")]) == Exit.FINE
    frame = pd.read_parquet(tmp_path / "times.parquet")
    assert list(frame["median_ns"]) == [1000.0, 500.0]
    assert list(frame.columns) == list(to_frame([]).columns)


def test_without_pyarrow_parquet_says_what_to_install(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(frame_files, "find_spec", lambda name: None)
    assert main(["show", str(run), "--export", str(tmp_path / "times.parquet")]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Parquet needs pyarrow. Run: pip install 'kernel-bridge[parquet]'" in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("name", ["times", "times.xlsx", "times.csv.gz"])
def test_an_unknown_ending_is_refused_before_anything_is_shown(run, tmp_path, name, capsys):
    assert main(["show", str(run), "--export", str(tmp_path / name)]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "expected .csv, .json, .parquet" in shown.err


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ReportError, match=r"--export .*: cannot be written: No such file or directory"):
        export(to_frame([]), (), str(tmp_path / "nowhere" / "times.csv"))


def test_without_the_option_nothing_is_checked():
    check_export(None)
