"""Run files that are JSON and mean harm: every command reads them or refuses them in a line, and obeys nothing."""

import ast
import inspect
import re

import pytest
from hypothesis import HealthCheck, given, settings

import reports.cli
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


def failing(*_):
    raise KeyError("a")


@pytest.mark.parametrize(
    ("place", "broken"),
    [("reports.cli.load_run", failing), ("reports.render.layout.visible", str)],
    ids=["a reader that fails", "a table that shows names as they are"],
)
def test_a_broken_command_is_noticed(tmp_path, monkeypatch, place, broken):
    data = whole([make_record(make_cell(operator="\x1b[2J", backend=backend)) for backend in ("jnp", "numba")])
    require_harmless(data, tmp_path, COMMANDS[:1])
    monkeypatch.setattr(place, broken)
    with pytest.raises(AssertionError):
        require_harmless(data, tmp_path, COMMANDS[:1])


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


def test_a_run_is_not_written_over_a_folder(tmp_path):
    with pytest.raises(RunUnwritable, match="it is a folder"):
        RunWriter(tmp_path, make_run()).begin([make_cell()])


UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}


def imported(source):
    """The top-level names that Python source imports, anywhere in it, and the calls that load pickles or run text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            found |= {name} & {"eval", "exec", "read_pickle", "literal_eval"}
            found |= {key.arg for key in node.keywords} & {"allow_pickle"}
    return found


def test_nothing_that_was_recorded_is_unpickled_or_executed():
    assert imported("import pickle.x\ndef f():\n    from marshal import loads\n    eval(a); pd.read_pickle(b)") == {
        "pickle", "marshal", "eval", "read_pickle"
    }  # fmt: skip
    unsafe = UNSAFE | {"eval", "exec", "read_pickle", "allow_pickle"}
    found = {
        str(path.relative_to(PROJECT)): imported(path.read_text("utf-8")) & unsafe
        for path in sorted((PROJECT / "reports").rglob("*.py"))
    }
    assert len(found) > 50
    assert {name: names for name, names in found.items() if names} == {}


def test_every_command_that_reads_a_run_is_tried():
    """But for `report`, whose page has tests of its own."""
    tried = {command[0] for command in COMMANDS}
    known = set(re.findall(r'add\(\s*"(\w+)"', inspect.getsource(reports.cli)))
    assert known - tried <= {"report"}
    assert tried - known <= {"compare"}
