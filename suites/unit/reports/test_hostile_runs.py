"""Run files that are JSON and mean harm: every command reads them or refuses them in a line, and obeys nothing."""

import re

import pytest
from hypothesis import HealthCheck, given, settings

from reports import RunUnwritable, RunWriter, load_run, run_path
from suites.unit.reports.builders import make_cell, make_record, make_run, whole
from suites.unit.reports.hostile_runs import COMMANDS, ODD_TEXTS, hostile_lines, require_harmless
from suites.unit.structure.house import PROJECT

EFFORT = settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)


def emptied(folder):
    for path in folder.iterdir():
        path.unlink()
    return folder


@EFFORT
@given(data=hostile_lines())
def test_no_part_of_a_record_makes_a_command_fail_or_obey(tmp_path, data):
    require_harmless(data, emptied(tmp_path))


@pytest.mark.parametrize(
    "text", [text for text in ODD_TEXTS if "\ud800" not in text], ids=lambda text: ascii(text)[1:20]
)
def test_every_name_may_be_any_text(tmp_path, text):
    """A whole run, all of whose names are this text, is shown and obeys nothing."""
    cells = [make_cell(operator=f"a{text}", backend=backend) for backend in ("jnp", f"b{text}")]
    require_harmless(whole([make_record(cell) for cell in cells]), tmp_path, (*COMMANDS[:3], COMMANDS[4]))
    assert len(load_run(tmp_path / "hostile.jsonl").records) == 2


@pytest.mark.parametrize("run_id", ["../a", "/tmp/a", "a/b", "../..", ".", "", "a\\b", "a\0b", "a/", None, 3])
def test_a_run_id_cannot_leave_the_folder(tmp_path, run_id):
    with pytest.raises(RunUnwritable, match="not the name of a file"):
        run_path(run_id, tmp_path)


def test_nothing_that_was_recorded_is_unpickled_or_executed():
    files = sorted((PROJECT / "reports").rglob("*.py"))
    unsafe = re.compile(r"\b(pickle|dill|cloudpickle|joblib|marshal|shelve|yaml|\w+_pickle|eval\(|exec\()")
    assert len(files) > 50
    assert [str(path) for path in files if unsafe.search(path.read_text("utf-8"))] == []


def test_a_run_is_not_written_over_a_folder(tmp_path):
    with pytest.raises(RunUnwritable, match="it is a folder"):
        RunWriter(tmp_path, make_run()).begin([make_cell()])
