"""The command line: its output and its exit codes."""

import io
import json
import subprocess
import sys

import pandas as pd
import pytest

from reports.cli import main
from reports.options import Exit
from reports.records.cell_result import CellResult
from reports.records.run_writer import RunWriter
from reports.records.status import Status
from suites.unit.processes import environment
from suites.unit.reports.builders import begun, make_cell, make_run, make_timing


def append(writer, **changes):
    fields = {
        "cell": make_cell(),
        "shapes": [[4096]],
        "dtypes": ["float32"],
        "seed": 0,
        "status": Status.PASSED,
        "timing": make_timing(),
        "bytes": 4000,
    }
    writer.append(CellResult(**{**fields, **changes}))


def write(folder, run_id, median_ns=1000.0, **last):
    """Writes jnp and numba cells of a run; `last` changes the numba cell."""
    cells = [make_cell(backend=backend) for backend in ("jnp", "numba")]
    with begun(folder / f"{run_id}.jsonl", make_run(run_id=run_id), cells, ends=0) as writer:
        for backend, changes in [("jnp", {}), ("numba", last)]:
            append(writer, **{"cell": make_cell(backend=backend), "timing": make_timing(median_ns), **changes})


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    return tmp_path


FAILED = {"status": Status.WRONG_VALUE, "reason": "812 ulp", "timing": None}
SKIPPED = {"status": Status.SKIPPED, "reason": "no float16", "timing": None}


def test_show_prints_the_latest_run(runs, capsys):
    write(runs, "20260101T000000-aaaa")
    write(runs, "20260102T000000-bbbb")
    assert main(["show"]) == Exit.FINE
    shown = capsys.readouterr()
    assert "20260102T000000-bbbb" in shown.out
    assert "1.00 µs" in shown.out
    assert shown.err == ""


def test_show_exits_with_1_if_a_cell_is_wrong(runs, capsys):
    write(runs, "a", **FAILED)
    assert main(["show", "a"]) == Exit.WRONG
    assert "812 ulp" in capsys.readouterr().out


def test_a_kernel_that_could_run_and_was_only_skipped_is_not_fine(runs, capsys):
    write(runs, "a", **SKIPPED)
    assert main(["show", "a"]) == Exit.COULD_NOT_RUN
    assert "nothing of lif_step, numba was checked: all of its cells were skipped" in capsys.readouterr().err


def test_a_kernel_that_cannot_run_here_is_fine(runs):
    with RunWriter(runs / "a.jsonl", make_run(run_id="a")) as writer:
        writer.begin([make_cell(backend="warp")], [make_cell()])
        append(writer, cell=make_cell(backend="warp"))
        append(writer, **SKIPPED)
        writer.end(0)
    assert main(["show", "a"]) == Exit.FINE


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"status": Status.WRONG_VALUE, "reason": "812 ulp", "timing": None}, Exit.WRONG),
        ({"status": Status.TIMEOUT, "reason": "300 s", "timing": None}, Exit.FINE),
        ({"status": Status.UNCHECKED, "reason": "no bound", "timing": None}, Exit.FINE),
    ],
)
def test_a_second_attempt_that_passes_makes_a_timeout_good_and_a_wrong_result_not(runs, first, code):
    with RunWriter(runs / "a.jsonl", make_run(run_id="a")) as writer:
        for changes in (first, {}):
            writer.begin([make_cell()])
            append(writer, **changes)
        writer.end(0)
    assert main(["show", "a"]) == code


def test_a_second_record_that_was_not_announced_is_damage(runs, capsys):
    with RunWriter(runs / "a.jsonl", make_run(run_id="a")) as writer:
        writer.begin([make_cell()])
        append(writer, status=Status.TIMEOUT, reason="300 s", timing=None)
        append(writer)
        writer.end(0)
    assert main(["show", "a"]) == Exit.COULD_NOT_RUN
    assert "a.jsonl:3: a second record of lif_step-numba-f32-4096-cpu, which was TIMEOUT" in capsys.readouterr().err


def test_options_add_tables_and_narrow_the_cells(runs, capsys):
    write(runs, "a", **FAILED)
    main(["show", "--accuracy", "--stages"])
    shown = capsys.readouterr().out
    assert "Accuracy on cpu" in shown
    assert "Stages on cpu" in shown
    assert main(["show", "--backend", "jnp", "--operator", "lif_step"]) == Exit.FINE
    assert "numba  " not in capsys.readouterr().out


def test_a_backend_is_shown_beside_the_baseline(runs, capsys):
    write(runs, "a")
    main(["show", "--backend", "numba"])
    assert "jnp" in capsys.readouterr().out.splitlines()[1]


def test_markdown_is_markdown(runs, capsys):
    write(runs, "a")
    assert main(["show", "--format", "markdown"]) == Exit.FINE
    assert capsys.readouterr().out.startswith("### Time per call on cpu: Xeon\n\n| operator ")


def test_json_has_the_numbers_and_null_for_what_is_not_there(runs, capsys):
    write(runs, "a", **FAILED)
    assert main(["show", "--format", "json"]) == Exit.WRONG
    rows = {row["backend"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["jnp"]["median_ns"] == 1000.0
    assert rows["jnp"]["shapes"] == [[4096]]
    assert (rows["numba"]["median_ns"], rows["numba"]["status"]) == (None, "WRONG_VALUE")


def test_csv_reads_as_a_frame(runs, capsys):
    write(runs, "a", 1000.0)
    write(runs, "b", 1500.0)
    for command, column in ((["show", "a"], "median_ns"), (["compare", "a", "b"], "base_ns"), (["list"], "run")):
        assert main([*command, "--format", "csv"]) == Exit.FINE
        frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
        assert frame[column].notna().all()


def test_a_summary_is_appended_as_markdown(runs, capsys, tmp_path):
    write(runs, "a")
    page = tmp_path / "summary.md"
    for _ in range(2):
        assert main(["show", "--summary", str(page)]) == Exit.FINE
    assert page.read_text(encoding="utf-8").count("### Time per call on cpu: Xeon\n") == 2


def test_width_is_kept(runs, capsys):
    write(runs, "a", **FAILED)
    main(["show", "--width", "60"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_a_terminal_narrower_than_a_table_can_be_gets_the_narrowest_table(runs, capsys, monkeypatch):
    write(runs, "a", **FAILED)
    main(["show", "--width", "40"])
    narrowest = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "3")
    main(["show"])
    assert capsys.readouterr().out == narrowest


@pytest.mark.parametrize(
    ("variables", "colored"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_colors_are_for_terminals_that_show_them(runs, capsys, monkeypatch, variables, colored):
    write(runs, "a", **FAILED)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    main(["show"])
    assert ("\x1b[" in capsys.readouterr().out) == colored


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "zzz"], "no run 'zzz'"),
        (["show", "--runs", "nowhere"], "no folder 'nowhere'"),
        (["show", "--operator", "saxpy"], "operator 'saxpy' is not in this run (it has: lif_step)"),
        (["show", "--backend", "cute"], "backend 'cute' is not in this run (it has: jnp, numba)"),
        (["show", "--dtype", "f16"], "dtype 'f16' is not in this run (it has: f32)"),
        (["show", "--size", "7"], "size 7 is not in this run (it has: 4096)"),
        (["compare", "a", "a", "--operator", "saxpy"], "operator 'saxpy' is not in this run (it has: lif_step)"),
        (["show", "--summary", "/nowhere/at/all"], "--summary /nowhere/at/all: cannot be written"),
        (["compare", "a", "zzz"], "no run 'zzz'"),
        (["list", "--runs", "nowhere"], "no folder 'nowhere'"),
    ],
)
def test_mistakes_are_one_line_and_exit_with_3(runs, capsys, arguments, words):
    write(runs, "a")
    assert main(arguments) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert shown.out == "" or "--summary" in arguments
    assert words in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["shout"], ["show", "--width", "ten"], ["show", "--width", "9"], ["compare", "a"]]
)
def test_bad_arguments_exit_with_3_in_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == Exit.COULD_NOT_RUN
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["show", "--help"], ["compare", "--help"]])
def test_help_documents_the_exit_codes(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for words in ("exit codes:", "0  fine", "1  a cell is wrong", "3  nothing was checked"):
        assert words in shown


def test_a_damaged_line_is_said_beside_the_table_and_is_not_fine(runs, capsys):
    write(runs, "a")
    path = runs / "a.jsonl"
    path.write_bytes(path.read_bytes() + b'{"schema": 1, "ind')
    assert main(["show"]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert "a.jsonl:5: left out" in shown.err
    assert "This run is no proof" in shown.out
    assert "1.00 µs" in shown.out


def test_a_run_without_a_record_is_infrastructure(runs, capsys):
    (runs / "a.jsonl").write_bytes(b'{"sch')
    assert main(["show"]) == Exit.COULD_NOT_RUN
    assert "holds no record" in capsys.readouterr().err


def test_a_newer_schema_is_infrastructure(runs, capsys):
    write(runs, "a")
    path = runs / "a.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text().splitlines()[1]), "schema": 99}) + "\n")
    assert main(["show"]) == Exit.COULD_NOT_RUN
    assert "Upgrade" in capsys.readouterr().err


def test_compare_prints_ratios(runs, capsys):
    write(runs, "a", 1000.0)
    write(runs, "b", 1500.0)
    assert main(["compare", "a", "b"]) == Exit.FINE, "the machine is slower, not the kernel"
    shown = capsys.readouterr().out
    assert "1.00 over 1 cell that was compared" in shown
    assert "time of jnp in head divided by base: 1.50" in shown


def test_compare_exits_with_1_if_a_cell_is_slower(runs, capsys):
    write(runs, "a", 1000.0)
    write(runs, "b", timing=make_timing(3300.0))
    assert main(["compare", "a", "b"]) == Exit.WRONG
    assert "SLOWER" in capsys.readouterr().out
    assert main(["compare", "b", "a"]) == Exit.FINE
    assert "FASTER" in capsys.readouterr().out


def test_compare_exits_with_3_if_processes_are_too_few_to_decide(runs, capsys):
    write(runs, "a", 1000.0)
    write(runs, "b", timing=make_timing(3300.0, across=[1.0]))
    assert main(["compare", "a", "b"]) == Exit.COULD_NOT_RUN
    assert "nothing could be decided for 1 of 2 cells: lif_step-numba-f32-4096-cpu" in capsys.readouterr().err


def test_compare_exits_with_3_if_some_cell_is_not_comparable(runs, capsys):
    write(runs, "a")
    write(runs, "b", timing=make_timing(method="cupti"))
    assert main(["compare", "a", "b"]) == Exit.COULD_NOT_RUN
    assert "nothing could be decided for 1 of 2 cells" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [
        ({}, FAILED, Exit.WRONG),
        (FAILED, {}, Exit.FINE),
        ({}, SKIPPED, Exit.COULD_NOT_RUN),
        (FAILED, FAILED, Exit.WRONG),
    ],
)
def test_compare_exits_with_1_if_head_is_wrong(runs, base, head, code):
    write(runs, "a", **base)
    write(runs, "b", **head)
    assert main(["compare", "a", "b"]) == code


def test_compare_exits_with_3_if_nothing_is_comparable(runs, capsys):
    write(runs, "a")
    with begun(runs / "b.jsonl", make_run(run_id="b"), [make_cell(size=1)], ends=0) as writer:
        append(writer, cell=make_cell(size=1))
    assert main(["compare", "a", "b"]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert "NEW" in shown.out
    assert "no cell of the two runs could be compared" in shown.err


def test_list_shows_every_run_and_fails_for_an_unreadable_one(runs, capsys):
    write(runs, "a", **FAILED)
    (runs / "b.jsonl.gz").write_bytes(b"not gzip")
    for width in ("160", "60"):
        assert main(["list", "--width", width]) == Exit.COULD_NOT_RUN
        shown = capsys.readouterr()
        assert "unreadable" in shown.out
        assert "b.jsonl.gz: cannot be read" in shown.err
        (line,) = [line for line in shown.out.splitlines() if line.startswith("a ")]
        assert "1      1       0" in line


def test_list_of_an_empty_folder_is_empty(runs, capsys):
    assert main(["list"]) == Exit.FINE
    assert "(none)" in capsys.readouterr().out


def run_module(*arguments, **options):
    variables = environment(PYTHONIOENCODING=options.pop("encoding", "utf-8"))
    command = [sys.executable, "-m", "reports", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables, **options)


def test_a_reader_that_leaves_early_is_no_error(runs):
    write(runs, "a")
    with run_module("show") as process:
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait()
    assert (code, errors) == (Exit.FINE, b"")


def test_a_stream_of_few_symbols_still_gets_its_table(runs):
    write(runs, "a")
    with run_module("show", encoding="ascii") as process:
        shown, errors = process.communicate()
    assert (process.returncode, errors) == (Exit.FINE, b"")
    assert b"1.00 us" in shown
