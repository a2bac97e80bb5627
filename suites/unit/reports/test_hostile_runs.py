"""Run files that are JSON and mean harm: every command reads them or refuses them in a line, and obeys nothing."""

import contextlib
import copy
import io
import json
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports import ReportError, RunUnwritable, RunWriter, load_run, run_path
from reports.options import Exit
from suites.commands.command_line import main
from suites.unit.reports.builders import make_cell, make_record, make_run, whole

GOOD = whole([make_record(make_cell(backend=backend)) for backend in ("jnp", "numba", "warp")])

ODD_TEXTS = (
    "", "\x1b[2J\x1b[31m", "\x9b2J", "a\nb", "\u202e", "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))", "| a | b |", "../../../../tmp/escaped", "/etc/passwd", "a\0b", "NaN", "-Infinity",
    "%s{0}", "x" * 5000, "\ud800", "=cmd()", "🙂" * 50, "2026-99-99T00:00:00+00:00", "f\u00adoo",
)  # fmt: skip
"""Texts that a terminal, a page, a spreadsheet, a shell or a file system might obey."""

ODD_VALUES: tuple[object, ...] = (
    *ODD_TEXTS, None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**40, 0.0, -0.0, 1e308, -1e308,
    5e-324, 1.5, [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": []}}}, [0] * 1000, [-1.0, 2**60],
)  # fmt: skip


def places(value, path=()):
    """The paths of all parts of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


@st.composite
def hostile_lines(draw):
    """The lines of a run with a few parts replaced, removed or nested deeply; each line is still JSON."""
    lines = [json.loads(line) for line in GOOD.splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(0, len(lines) - 1))
        path = draw(st.sampled_from([place for place in places(lines[number]) if place] or [()]))
        lines[number] = _changed(draw, lines[number], path)
    if draw(st.integers(0, 9)) == 0:
        text = "[" * draw(st.integers(100, 5000))
        lines.append(text)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _changed(draw, line, path):
    if not path:
        return draw(st.sampled_from(ODD_VALUES))
    changed = copy.deepcopy(line)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    before = holder.pop(path[-1])
    if draw(st.booleans()):
        new = draw(st.sampled_from([*ODD_VALUES, [before]]))
        holder.update({path[-1]: new}) if isinstance(holder, dict) else holder.insert(path[-1], new)
    return changed


COMMANDS = (
    ("show", "RUN"),
    ("show", "RUN", "--format", "markdown", "--sort", "ratio"),
    ("show", "RUN", "--format", "csv", "--only", "slower"),
    ("compare", "RUN", "GOOD"),
    ("show",),
)
"""Commands that read runs; RUN is the hostile file, and GOOD is a whole one."""


def require_harmless(data, folder, commands=COMMANDS):
    """Reads a file as every command does, and fails unless it is read, or refused in a line that says why.

    Args:
        data: The content of the run file.
        folder: An empty folder for the runs.
        commands: The commands, as in :data:`COMMANDS`.
    """
    good, path = folder / "good.jsonl", folder / "hostile.jsonl"
    good.write_bytes(GOOD)
    path.write_bytes(data)
    assert all(text.startswith(f"{path}:") for text in _complaints(path))
    for command in commands:
        words = [str({"RUN": path, "GOOD": good}.get(word, word)) for word in command]
        shown, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
            code = main([*words, *(("--runs", str(folder)) if words == ["show"] else ())])
        assert code in tuple(Exit)
        assert "Please report" not in errors.getvalue(), errors.getvalue()
        for text in (shown.getvalue(), errors.getvalue()):
            assert not {unicodedata.category(each) for each in text if each != "\n"} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert sorted(found.name for found in folder.iterdir()) == ["good.jsonl", "hostile.jsonl"]


def _complaints(path):
    try:
        return load_run(path).problems
    except ReportError as error:
        return [str(error)]


EFFORT = settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)


@EFFORT
@given(data=hostile_lines())
def test_no_part_of_a_record_makes_a_command_fail_or_obey(tmp_path, data):
    for path in tmp_path.iterdir():
        path.unlink()
    require_harmless(data, tmp_path)


@pytest.mark.parametrize(
    "text", [text for text in ODD_TEXTS if "\ud800" not in text], ids=lambda text: ascii(text)[1:20]
)
def test_every_name_may_be_any_text(tmp_path, text):
    """A whole run, all of whose names are this text, is shown and obeys nothing."""
    cells = [make_cell(operator=f"a{text}", backend=backend) for backend in ("jnp", f"b{text}")]
    require_harmless(whole([make_record(cell) for cell in cells]), tmp_path, COMMANDS[:4])
    assert len(load_run(tmp_path / "hostile.jsonl").records) == 2


@pytest.mark.parametrize("run_id", ["../a", "/tmp/a", "a/b", "../..", ".", "", "a\\b", "a\0b", "a/", None, 3])
def test_a_run_id_cannot_leave_the_folder(tmp_path, run_id):
    with pytest.raises(RunUnwritable, match="not the name of a file"):
        run_path(run_id, tmp_path)


def test_a_run_is_not_written_over_a_folder(tmp_path):
    with pytest.raises(RunUnwritable, match="it is a folder"):
        RunWriter(tmp_path, make_run()).begin([make_cell()])
