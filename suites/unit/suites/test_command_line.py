"""The commands of ``kernel-bridge`` in this process: their options, what they refuse, and in which words."""

import json
import os
import re
from pathlib import Path

import pytest

import suites
from reports import load_run
from reports.options import Exit
from suites.commands.command_line import main, parsed, selection_of
from suites.processes.isolation import isolated
from suites.processes.resuming import RunLock
from suites.unit.processes import output, run
from suites.unit.reports.builders import make_pair, whole
from suites.unit.suites.git_repositories import commit

pytestmark = pytest.mark.usefixtures("folder")


def said(capsys, *arguments):
    """The exit code of a command, and its standard error."""
    try:
        code = main([*arguments])
    except SystemExit as exit_:
        code = exit_.code
    shown = capsys.readouterr()
    assert shown.out == ""
    return code, shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("validate none.py", "none.py: there is no such file"),
        ("validate --operator softmx", "Did you mean 'softmax'? Known are add"),
        ("validate .", ".: is a folder. Give the path of a Python file"),
        ("validate --operator add --backend cuda_raw", "no cell fits --operator add --backend cuda_raw --device cpu"),
        ("validate --resume none", "no folder 'runs'. Name the folder"),
        ("validate --part 0/4", "got 0/4, expected"),
        ("validate --executor none:make", "No module named 'none'. Give a module and a function in it"),
        ("validate --executor none:make --part 1/4", "--executor takes no --part"),
        # Of what a timing process refuses, one thing is enough: it asks the same function.
        ("bench none.py --processes 1", "none.py: there is no such file"),
        ("bench --size 0", "argument --size: got 0, expected a whole number of at least 1"),
        ("bench --size 999999999999999999999999999999", "expected a whole number of at most 9223372036854775807"),
        ("bench --size \x1b]0;mine\x07", "argument --size: got \\x1b]0;mine\\x07, expected a whole number"),
        ("bench --summary /no/folder/a.md", "--summary /no/folder/a.md: cannot be written there"),
        ("bench --timeout 1e300", "got 1e300, expected"),
        ("compare nothing", "'nothing' is no run and no revision"),
        ("show --nonsense", "unrecognized arguments: --nonsense"),
        ("nothing", "--help"),
    ],
)
def test_mistakes_are_one_line_and_exit_with_3(arguments, words, capsys):
    code, errors = said(capsys, *arguments.split(" "))
    assert code == Exit.COULD_NOT_RUN
    assert words in errors
    assert len([line for line in errors.splitlines() if not line.startswith("kernel-bridge: ")]) == 1
    assert not list(Path("runs").glob("*"))


def test_the_profile_is_quick_but_a_users_file_is_validated_in_full():
    for command, given, profile in (
        ("bench", [], "quick"), ("bench", ["my_ops.py"], "quick"),
        ("bench", ["my_ops.py", "--profile", "full"], "full"),
        ("validate", [], "quick"), ("validate", ["my_ops.py"], "full"),
        ("validate", ["my_ops.py", "--profile", "quick"], "quick"),
    ):  # fmt: skip
        assert selection_of(parsed([command, *given])).profile == profile


def test_files_may_stand_before_between_and_after_options():
    for words in ("my_ops.py --size 64 --peers", "--size 64 my_ops.py --peers", "--size 64 --peers my_ops.py"):
        assert parsed(["bench", *words.split()]).operators == ["my_ops.py"]
    assert parsed(["compare", "HEAD~1", "--gate", "my_ops.py"]).names == ["HEAD~1", "my_ops.py"]


def test_a_fault_of_a_command_is_no_verdict_about_kernels(monkeypatch, capsys):
    def faulty(options):
        raise LookupError("\x1b[2J lost\nits second line")

    monkeypatch.setattr("suites.commands.command_line.run_report", faulty)
    code, errors = said(capsys, "show")
    assert code == Exit.COULD_NOT_RUN
    assert "in faulty" in errors
    assert "\x1b" not in errors
    assert "a fault of its own, so nothing is decided: LookupError: \\x1b[2J lost" in errors.splitlines()[-1]


IMPORTING = """
import os, signal
for name in ("SIGINT", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)  # a process in the background ignores SIGINT
import suites.commands.command_line
def run(words):
    try:  # a library that is being imported loses the exception, prints it, or makes another one of it
        os.kill(os.getpid(), signal.{name})
    except KeyboardInterrupt:
        raise ImportError("Encountered an error while initializing the extension.")
    print("went on")
suites.commands.command_line.main = run
from suites.__main__ import main
raise SystemExit(main())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_import_ends_the_command_in_one_line(name):
    done = run("-c", IMPORTING.format(name=name))
    assert (done.returncode, done.stdout, done.stderr) == (Exit.COULD_NOT_RUN, "", "kernel-bridge: interrupted.\n")


WITHOUT_IMPORTS = """
import sys
from suites.commands.command_line import main
for words in ("validate no.py", "bench no.py", "list no.py", "show no", "report no", "compare no no.py"):
    print(words, main(words.split()), *{"jax", "numba", "pandas", "scipy", "warp"} & set(sys.modules))
"""


def test_what_is_missing_is_said_before_anything_large_is_imported(folder):
    commit(folder, {"a": ""})
    lines = output("-c", WITHOUT_IMPORTS, cwd=folder).splitlines()
    assert len(lines) == 6
    assert all(line.endswith(f" {Exit.COULD_NOT_RUN:d}") for line in lines), lines


def test_a_list_can_be_read_by_programs_and_fits_the_terminal(capsys, monkeypatch):
    assert main(["list", "--operator", "add", "--format", "json"]) == Exit.FINE
    rows = json.loads(capsys.readouterr().out)
    assert {row["operator"] for row in rows} == {"add"}
    assert rows[0]["dtypes"].startswith("f32 f64")
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["list", "--operator", "add"]) == Exit.FINE
        assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_a_session_has_a_folder_for_handlers_where_the_users_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder, kept in ((tmp_path / "file", False), (tmp_path / "new", True)):
        monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(folder))
        with isolated() as (variables, scratch):
            assert variables["KERNEL_BRIDGE_CACHE_DIR"] == (str(folder) if kept else scratch)


def test_two_sessions_cannot_continue_one_run(capsys):
    Path("runs").mkdir()
    path = Path("runs", "20261120T190102-3f2a.jsonl")
    path.write_bytes(whole(make_pair(1000.0, 500.0)))
    lock = RunLock()
    lock.take(path)
    code, errors = said(capsys, "bench", "--resume", "latest")
    assert code == Exit.COULD_NOT_RUN
    assert "another session is writing this run" in errors
    lock.release()
    (another := RunLock()).take(path)
    another.release()
    assert len(load_run(path).records) == 2


@pytest.mark.parametrize("command", ["bench", "validate"])
def test_a_resume_that_is_interrupted_before_its_first_cell_says_what_is_recorded(command, monkeypatch, capsys):
    Path("runs").mkdir()
    data = whole([*make_pair(1000.0, 500.0)]).splitlines(keepends=True)
    Path("runs", "20261120T190102-3f2a.jsonl").write_bytes(b"".join(data[:-1]))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("suites.bench.command.ProcessPool", interrupted)
    monkeypatch.setattr("pytest.main", lambda *_, **__: pytest.ExitCode.INTERRUPTED)
    assert main([command, "--resume", "latest"]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert "500 ns" in shown.out or "2 cells, recorded in runs/" in shown.err
    assert "interrupted; no cell was added. Continue with:" in shown.err
    assert re.search(rf"kernel-bridge {command} --resume runs/20261120T190102-3f2a.jsonl\n", shown.err)


def test_the_first_place_of_pythonpath_stays_first_in_its_own_folder(tmp_path):
    tree = Path(suites.__file__).parents[1]
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("raise RuntimeError('an older installation')\n")
    output("-P", "-m", "suites", "list", "--operator", "add", cwd=tree, PYTHONPATH=f"{tree}{os.pathsep}{tmp_path}")


def test_a_missing_extra_is_named():
    done = run(
        "-c",
        "import importlib.util as u, sys; found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'pandas' else found(name, *more)\n"
        "import runpy; sys.argv = ['kernel-bridge', 'list']; runpy.run_module('suites', run_name='__main__')",
    )
    assert done.returncode == Exit.COULD_NOT_RUN
    cure = 'not installed: pandas. Install them, in the folder of its source: python -m pip install ".[suites]"'
    assert cure in done.stderr
