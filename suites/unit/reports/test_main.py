"""The command line: its output and its exit codes."""

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from reports.options import Exit
from reports.records.status import Status
from suites.commands.command_line import main
from suites.unit.processes import environment
from suites.unit.reports.builders import begun, make_cell, make_result, make_run, make_timing


def write(folder, run_id, median_ns=1000.0, **last):
    """Writes jnp and numba cells of a run; `last` changes the numba cell."""
    cells = [make_cell(backend=backend) for backend in ("jnp", "numba")]
    with begun(folder / f"{run_id}.jsonl", make_run(run_id=run_id), cells, ends=0) as writer:
        for backend, changes in [("jnp", {}), ("numba", last)]:
            writer.append(make_result(make_cell(backend=backend), **({"median_ns": median_ns} | changes)))


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    return tmp_path


FAILED = {"status": Status.WRONG_VALUE, "reason": "812 ulp"}
SKIPPED = {"status": Status.SKIPPED, "reason": "no float16"}


@pytest.mark.parametrize(
    ("last", "code"),
    [({}, Exit.FINE), (FAILED, Exit.WRONG), (SKIPPED, Exit.COULD_NOT_RUN),
     ({"status": Status.OOM, "reason": "no memory"}, Exit.COULD_NOT_RUN)],
)  # fmt: skip
def test_show_prints_the_latest_run_and_its_exit_code(runs, capsys, last, code):
    write(runs, "20260101T000000-aaaa")
    write(runs, "20260102T000000-bbbb", **last)
    assert main(["show", "latest"]) == code
    shown = capsys.readouterr()
    assert "20260102T000000-bbbb" in shown.out
    assert "1.00 µs" in shown.out
    assert bool(shown.err) is (code == Exit.COULD_NOT_RUN)


def test_formats_for_programs_have_all_cells(runs, capsys):
    write(runs, "a", **FAILED)
    write(runs, "b")
    assert main(["show", "a", "--format", "json"]) == Exit.WRONG
    rows = json.loads(capsys.readouterr().out)
    assert [(row["backend"], row["status"], row["median_s"]) for row in rows] == [
        ("jnp", "PASSED", 1e-6), ("numba", "WRONG_VALUE", None)
    ]  # fmt: skip
    for command, column in ((["show", "b"], "median_s"), (["compare", "b", "b"], "base_s"), (["show"], "run")):
        main([*command, "--format", "csv"])
        assert column in pd.read_csv(io.StringIO(capsys.readouterr().out)).columns
    assert main(["show", "b", "--format", "markdown"]) == Exit.FINE
    assert "| lif_step | f32" in capsys.readouterr().out


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_colors_are_for_terminals_that_show_them(runs, capsys, monkeypatch, no_color, colored):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write(runs, "a")
    main(["show", "a"])
    assert ("\x1b[" in capsys.readouterr().out) is colored


@pytest.mark.parametrize(
    ("base", "head", "code", "words"),
    [
        ({}, {}, Exit.FINE, "SAME"),
        ({}, {"timing": make_timing(10_000.0)}, Exit.WRONG, "SLOWER"),
        ({}, FAILED, Exit.WRONG, "BROKEN"),
        (FAILED, {}, Exit.COULD_NOT_RUN, "FIXED"),
        ({}, {"seed": 5}, Exit.COULD_NOT_RUN, "NOT_COMPARABLE CONDITIONS"),
    ],
)
def test_compare_prints_the_verdicts_and_their_exit_code(runs, capsys, base, head, code, words):
    write(runs, "a", **base)
    write(runs, "b", **head)
    assert main(["compare", "a", "b"]) == code
    shown = capsys.readouterr()
    assert words in shown.out
    assert ("no cell of the two runs could be compared" in shown.err) is (words.startswith(("FIXED", "NOT", "BROKEN")))


def test_the_list_has_every_run_and_an_interrupted_one_is_no_failure(runs, capsys):
    write(runs, "20260101T000000-aaaa")
    with begun(runs / "20260102T000000-bbbb.jsonl", make_run(run_id="20260102T000000-bbbb"), [make_cell()]):
        pass
    assert main(["show"]) == Exit.FINE
    lines = {line.split(" ")[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("2026")}
    assert "INCOMPLETE 1" in lines["20260102T000000-bbbb"]
    assert "unreadable" not in str(lines)
    (runs / "20260103T000000-cccc.jsonl").write_bytes(b"[1]\n")
    (runs / os.fsdecode(b"20260104T000000-\xff\xfe.jsonl")).touch()  # a name that is no UTF-8
    assert main(["show"]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr().out
    assert "unreadable" in shown
    assert "20260104T000000-\\udcff\\udcfe" in shown
    assert "20260101T000000-aaaa" in shown


def run_module(*arguments, **options):
    variables = environment(PYTHONIOENCODING=options.pop("encoding", "utf-8"))
    command = [sys.executable, "-m", "suites", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, env=variables, **streams)


def test_a_reader_that_leaves_early_is_no_error(runs):
    write(runs, "a")
    with run_module("show", "a") as process:
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait()
    assert (code, errors) == (Exit.FINE, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_an_error_of_one_line(runs):
    write(runs, "a")
    with open("/dev/full", "w") as full, run_module("show", "a", stdout=full) as process:
        errors = process.stderr.read().decode()
        code = process.wait()
    assert code == Exit.COULD_NOT_RUN
    assert len(errors.splitlines()) == 1
    assert "cannot be written: No space left on device" in errors
