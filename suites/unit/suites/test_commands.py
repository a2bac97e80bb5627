"""The commands of ``kernel-bridge``: what they print, how they end, and how they go on after an interruption."""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bridge
import suites
from reports import Status, find_run, load_run
from reports.options import Exit
from suites.cells import catalogue
from suites.errors import SelectionError
from suites.sessions.commands.command_line import main, parsed, parser, selection_of
from suites.sessions.isolation import isolated
from suites.sessions.resuming import RunLock
from suites.unit.processes import environment

PROJECT = Path(__file__).parents[3]

OPERATORS = """\
import ctypes
import numba, numpy as np
from suites import Operator

@numba.njit
def twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

abort, pause = ctypes.CDLL(None).abort, ctypes.CDLL(None).pause
for function in (abort, pause):
    function.argtypes = []

@numba.njit
def dangerous(x, out):
    if x[0] == 666:
        abort()
    if x[0] == 777:
        pause()
    for i in range(x.size):
        out[i] = 2 * x[i]

def first(value):
    def sample(dtype, size, seed):
        x = np.arange(size, dtype=dtype)
        x[0] = value
        return (x,)
    return sample

def operator(name, kernel, **more):
    return Operator(name=name, reference=lambda x: 2 * x, kernels={"numba": kernel}, dtypes=("float32",), **more)
"""
RIGHT = OPERATORS + "RIGHT = operator('right', twice)\n"
DANGEROUS = (
    OPERATORS
    + """\
CRASH = operator('a_crash', dangerous, sample=first(666))
HANG = operator('b_hang', dangerous, sample=first(777))
UNUSABLE = operator('c_unusable', twice, sample=lambda dtype, size, seed: first(1 / (64 - size))(dtype, size, seed))
RIGHT = operator('d_right', twice)
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to type commands in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNEL_BRIDGE_RUNS", raising=False)
    yield tmp_path
    os.environ.pop("KERNEL_BRIDGE_RUNS", None)
    catalogue.use([])


def alone(command):
    """The options with which one process times the cells: what is said and written does not depend on more."""
    return ["--processes", "1"] if command == "bench" else []


def started(*arguments, **variables):
    """A command in a process of its own."""
    command = [sys.executable, "-m", "suites", *map(str, arguments)]
    command += alone(arguments[0]) if "--processes" not in command else []
    variables = environment(**({"COLUMNS": "100"} | variables))
    # A shell has its background jobs ignore Ctrl-C, and so do the processes that they start, unless told otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def ended(*arguments, **variables):
    """The exit code and the output of a command."""
    with started(*arguments, **variables) as process:
        output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


@pytest.mark.parametrize("command", ["bench", "validate"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.py"], "none.py: there is no such file"),
        (["--operator", "softmx"], "Did you mean 'softmax'? Known are add"),
        (["--backend", "cute"], "Known are jnp, numba, numba_parallel"),
        (["--dtype", "float23"], "Did you mean 'float32'?"),
        (["--size", "0"], "argument --size: got 0, expected a whole number of at least 1"),
        (["--size", "9" * 30], "expected a whole number of at most 9223372036854775807"),
        (["--size", "\x1b]0;mine\x07"], "argument --size: got \\x1b]0;mine\\x07, expected a whole number"),
        (["--operator", "\x1b]0;mine\x07"], "\\x1b]0;mine\\x07"),
        (["--size", "many"], "argument --size: got many, expected a whole number of at least 1"),
        (["--summary", "/no/folder/a.md"], "--summary /no/folder/a.md: cannot be written there"),
        (["."], ".: is a folder. Give the path of a Python file"),
        (["--format", "pdf"], "invalid choice: 'pdf'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_mistakes_are_one_line_and_exit_with_3(command, arguments, words, capsys):
    try:
        code = main([command, *arguments, *alone(command)])
    except SystemExit as exit_:
        code = exit_.code
    shown = capsys.readouterr()
    assert code == Exit.COULD_NOT_RUN
    assert words in shown.err
    assert len([line for line in shown.err.splitlines() if not line.startswith("kernel-bridge: ")]) == 1
    assert shown.out == ""
    assert not list(Path("runs").glob("*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "--jobs", "-1"],
        ["validate", "--part", "0/4"],
        ["bench", "--part", "5/4"],
        ["bench", "--timeout", "-1"],
        ["bench", "--timeout", "1e300"],
        ["compare", "HEAD", "--minutes", "1e9"],
        ["compare", "HEAD", "--processes", "100000"],
    ],
)
def test_numbers_that_make_no_sense_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == Exit.COULD_NOT_RUN
    assert f"got {arguments[-1]}, expected" in capsys.readouterr().err


def commands():
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return found.choices


def test_there_are_eight_commands_and_at_most_seventy_options():
    assert set(commands()) == {"validate", "bench", "list", "show", "compare", "report", "clean", "merge"}
    counted = [
        action for each in commands().values() for action in each._actions
        if action.option_strings and "--help" not in action.option_strings
    ]  # fmt: skip
    assert len(counted) + 1 <= 70, "with --version"


def test_an_option_means_the_same_everywhere_and_each_help_ends_with_an_example():
    meant = {}
    for name, each in commands().items():
        assert f"\nexample:\n  kernel-bridge {name} " in each.format_help()
        for action in each._actions:
            for option in action.option_strings:
                known = meant.setdefault(option, action)
                assert action.default == known.default
                assert option in ("--profile", "--format", "--export") or action.help == known.help


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


def test_clean_deletes_only_what_is_made_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("cache/native-1/a.bin", "cache/winners-1/add/w", "cache/hers", "runs/a.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("content")
    assert main(["clean"]) == Exit.FINE
    assert "native-1" in capsys.readouterr().out
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["a.jsonl", "hers", "w"]
    assert main(["clean", "--all"]) == Exit.FINE
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.jsonl", "hers"]


def test_a_fault_of_a_command_is_no_verdict_about_kernels(monkeypatch, capsys):
    def faulty(options):
        raise LookupError("\x1b[2J lost\nits second line")

    monkeypatch.setattr("suites.sessions.commands.command_line.run_report", faulty)
    assert main(["show"]) == 3
    shown = capsys.readouterr().err
    assert "in faulty" in shown
    assert "\x1b" not in shown
    *_, last = shown.splitlines()
    assert "a fault of its own, so nothing is decided: LookupError: \\x1b[2J lost" in last


@pytest.mark.parametrize("with_cause", [True, False])
def test_an_interrupted_import_is_an_interruption(with_cause, monkeypatch, capsys):
    def interrupted(options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            stopped = ImportError("Encountered an error while initializing the extension.")
            if with_cause:
                raise stopped from error
            raise stopped  # noqa: B904

    monkeypatch.setattr("suites.sessions.commands.command_line.run_report", interrupted)
    assert main(["show"]) == Exit.COULD_NOT_RUN
    assert re.fullmatch(r".* show: interrupted\.\n", capsys.readouterr().err)


def test_every_format_of_a_list_can_be_read(capsys):
    assert main(["list", "--operator", "add", "--format", "json"]) == Exit.FINE
    rows = json.loads(capsys.readouterr().out)
    assert {row["operator"] for row in rows} == {"add"}
    assert rows[0]["dtypes"].startswith("f32 f64")


def test_a_closed_output_is_no_error():
    Path("ops.py").write_text(RIGHT)
    command = f"{sys.executable} -m suites list ops.py >&-"
    done = subprocess.run(command, shell=True, env=environment(), stderr=subprocess.PIPE, text=True, timeout=100)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("command", ["bench", "validate"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "none"], "--resume none: no "),
        (["--operator", "add", "--backend", "cuda_raw"], "no cell fits --operator add --backend cuda_raw --device cpu"),
    ],
)
def test_what_cannot_run_is_one_line_and_leaves_no_run(command, arguments, words):
    code, output, errors = ended(command, *arguments)
    assert code == Exit.COULD_NOT_RUN
    assert [words in line for line in errors.strip().splitlines()] == [False, True]
    assert "Traceback" not in output + errors
    assert not list(Path("runs").glob("*"))


def test_an_operator_without_a_kernel_for_the_device_is_not_fine():
    Path("ops.py").write_text(
        RIGHT
        + "from numba import cuda\n\n@cuda.jit\ndef on_gpu(x, out):\n    out[cuda.grid(1)] = 2 * x[cuda.grid(1)]\n\n"
        "GPU = Operator(name='on_gpu', reference=lambda x: 2 * x, kernels={'numba_cuda': on_gpu})\n"
    )
    code, output, errors = ended("bench", "ops.py", "--size", 64)
    assert code == Exit.COULD_NOT_RUN
    assert "no kernel of on_gpu ran on cpu" in errors
    assert re.search(r"right +f32 +64 ", output)
    code, _, errors = ended("bench", "ops.py", "--size", 64, "--operator", "right")
    assert code == Exit.FINE, errors


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == Exit.FINE
    assert capsys.readouterr().out == f"kernel-bridge {bridge.__version__}\n"


def test_a_session_has_a_folder_for_handlers_where_the_users_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder, kept in ((tmp_path / "file", False), (tmp_path / "new", True)):
        monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(folder))
        with isolated() as (variables, scratch):
            assert variables["KERNEL_BRIDGE_CACHE_DIR"] == (str(folder) if kept else scratch)


def test_the_first_line_comes_before_anything_is_imported():
    with started("bench", "--operator", "none") as process:
        assert process.stderr.readline().startswith("kernel-bridge: timing the quick profile on cpu")


def test_a_run_survives_cells_that_crash_hang_or_cannot_be_made():
    Path("ops.py").write_text(DANGEROUS)
    code, output, errors = ended("bench", "ops.py", "--size", 64, "--timeout", 15)
    assert code == Exit.WRONG
    records = {
        record.cell.operator: record for record in load_run(find_run()).records if record.cell.backend == "numba"
    }
    statuses = {name: record.status for name, record in records.items()}
    assert statuses == {
        "a_crash": Status.CRASHED,
        "b_hang": Status.TIMEOUT,
        "c_unusable": Status.UNCHECKED,
        "d_right": Status.PASSED,
    }
    assert records["a_crash"].reason == "the process ended with SIGABRT"
    assert "ZeroDivisionError" in records["c_unusable"].reason
    assert records["d_right"].timing is not None
    assert all(word in output for word in ("CRASHED", "TIMEOUT"))
    assert re.search(r"d_right +f32 +64 +numba .* jnp", errors)


def interrupted(*arguments, when):
    """The output of a command that gets Ctrl-C after a line on standard error fits, and the command that goes on."""
    with started(*arguments) as process:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if re.search(when, line):
                break
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    errors = "".join(seen) + errors
    assert process.returncode == Exit.COULD_NOT_RUN, errors
    lines = re.findall(r"^    (.* --resume .*)$", errors, re.MULTILINE)
    assert len(lines) == 1, errors
    return output, errors, shlex.split(lines[0])


def test_an_interrupted_bench_says_how_to_go_on_and_then_is_complete():
    Path("ops.py").write_text(RIGHT)
    arguments = ["bench", "ops.py", "--size", 64, "--size", 128, "--size", 256]
    output, errors, again = interrupted(*arguments, when=r"right +f32 +64 +numba")
    assert "interrupted; " in errors
    assert "Summary of cpu" in output
    before = load_run(find_run()).records
    assert 1 <= len(before) < 6
    assert again[0] == "kernel-bridge"
    for _ in range(2):  # the second time nothing is left
        code, _, errors = ended(*again[1:])
        assert code == Exit.FINE, errors
    cells = [record.cell.key for record in load_run(find_run()).records]
    assert len(cells) == len(set(cells)) == 6
    assert all(record.status is Status.PASSED for record in load_run(find_run()).records)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_session_that_is_ended_leaves_its_records_and_no_temporary_folder(number, tmp_path):
    Path("ops.py").write_text(RIGHT)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["bench", "ops.py", "--profile", "quick", "--size", 64, "--size", 128]
    with started(*arguments, TMPDIR=str(temporary)) as process:
        for line in process.stderr:
            if re.search(r"right +f32 +64 +numba", line):
                break
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == Exit.COULD_NOT_RUN, errors
    assert "--resume" in errors
    assert {record.cell.size for record in load_run(find_run()).records} == {64}
    assert list(temporary.iterdir()) == []


def test_two_sessions_cannot_continue_one_run():
    Path("ops.py").write_text(RIGHT)
    arguments = ["ops.py", "--profile", "quick", "--size", 64]
    assert ended("bench", *arguments)[0] == Exit.FINE
    lock = RunLock()
    lock.take(find_run())
    assert main(["bench", *map(str, arguments), "--resume", "latest"]) == Exit.COULD_NOT_RUN
    with pytest.raises(SelectionError, match="another session is writing this run"):
        RunLock().take(find_run())
    lock.release()
    lock.take(find_run())
    lock.release()


def test_an_interrupted_validation_records_no_crash_and_goes_on():
    Path("ops.py").write_text(RIGHT)
    with started("validate", "ops.py", "--jobs", 1, "--profile", "quick") as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not any('"PASSED"' in run.read_text() for run in Path("runs").glob("*")):
            time.sleep(0.1)
        # The program `timeout` ends all processes of a group, and a worker may be the first of them.
        for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(worker), signal.SIGTERM)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == Exit.COULD_NOT_RUN, errors
    before = load_run(find_run()).records
    assert {record.status for record in before} <= {Status.PASSED, Status.SKIPPED}
    (line,) = re.findall(r"^    (.* --resume .*)$", errors, re.MULTILINE)
    for _ in range(2):  # the second time nothing is left
        code, output, errors = ended(*shlex.split(line)[1:])
        assert code == Exit.FINE, output + errors
    cells = [record.cell.key for record in load_run(find_run()).records]
    assert len(cells) == len(set(cells)) > len(before)


def test_nothing_of_the_users_configuration_reaches_a_session(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --nonsense\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('hers')\n")
    for package in ("reports", "suites", "pytest_benchmark"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('hers')\n")
    (tmp_path / "random.py").write_text("raise SystemExit('hers')\n")
    (tmp_path / "ops.py").write_text(RIGHT)
    program = "from suites.sessions.commands.command_line import main; raise SystemExit(main())"
    temporary, kept = tmp_path / "temporary", []
    temporary.mkdir()
    for arguments in (
        ["bench", "--size", "64", *alone("bench")],
        ["validate", "--profile", "quick", "--jobs", "1", "--", "-k", "compiled"],
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, arguments[0], "ops.py", *arguments[1:]],
            env=environment(
                PYTEST_ADDOPTS="--nonsense", PYTEST_PLUGINS="nonsense",
                KERNEL_BRIDGE_CACHE_DIR=str(tmp_path / "cache"), TMPDIR=str(temporary),
            ),
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        kept.append([path.name for path in sorted((tmp_path / "cache").rglob("*"))])
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".")}
    assert not left
    assert [path.name for path in temporary.iterdir() if path.name.startswith("kernel-bridge")] == []
    # The machine code of handlers outlives a session, and nothing else does.
    assert kept[0] == kept[1]
    assert [name.partition("-")[0] for name in kept[0]] == ["native", "bridge_cpu", "bridge_error"]


def test_the_first_place_of_pythonpath_stays_first_in_its_own_folder(tmp_path):
    tree = Path(suites.__file__).parents[1]
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("raise RuntimeError('an older installation')\n")
    variables = environment() | {"PYTHONPATH": os.pathsep.join([str(tree), str(tmp_path)])}
    command = [sys.executable, "-P", "-m", "suites", "list", "--operator", "add"]
    done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_a_command_prints_the_format_and_nothing_else(form, capfd):
    Path("ops.py").write_text(RIGHT)
    shown_as = ["--format", form, "--summary", "summary.md"]
    assert main(["bench", "ops.py", "--size", "64", *alone("bench"), *shown_as]) == Exit.FINE
    shown = capfd.readouterr().out
    if form == "json":
        assert {row["status"] for row in json.loads(shown)} == {"PASSED"}
    else:
        assert shown.startswith("### Cells on cpu" if form == "markdown" else "index,")
    assert "<details><summary>Cells on cpu" in Path("summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [80, 200])
def test_tables_and_lines_of_cells_fit_the_terminal(columns):
    longest = ("--operator", "csr_binary_matvec", "--size", "1048576", "--backend", "numba_parallel")
    _, _, errors = ended("bench", *longest, COLUMNS=str(columns))
    lines = [line for line in errors.splitlines() if "csr_binary" in line]
    assert lines
    assert max(map(len, lines)) <= 80
    for command in (["show", "latest"], ["list", "--operator", "add"]):
        code, output, _ = ended(*command, COLUMNS=str(columns))
        assert code == Exit.FINE
        assert max(map(len, output.splitlines())) <= columns


def test_a_reference_that_fails_its_own_bound_is_said_and_tables_take_the_width():
    Path("ops.py").write_text(
        RIGHT + "from suites import Expected\n"
        "RIGHT = operator('doubtful', twice, truth=lambda x: Expected(3.0 * x, x.dtype, abs(x) * 1e-7))\n"
    )
    more = ["--jobs", 0, "--", "-k", "compiled and 2100"]
    code, output, _ = ended("validate", "ops.py", *more, COLUMNS="70")
    assert code == Exit.WRONG
    assert "doubtful: jnp fails too. The reference or its error bound may be wrong; see docs/bounds.md" in output
    (failure,) = [line for line in output.splitlines() if line.startswith("doubtful numba float32: is wrong")]
    assert "inputs: x: float32[2100], x[" in failure
    grid = output.partition("Validation on cpu")[2]
    assert max(len(line) for line in grid.splitlines() if line.startswith("  ")) <= 70


def test_the_recorded_commit_is_the_one_of_the_users_file(tmp_path):
    Path("ops.py").write_text(RIGHT)
    ended("bench", "ops.py", "--size", "64")
    assert load_run(find_run()).records[0].run.source.commit is None
    for command in ("init -q", "add ops.py", "-c user.name=n -c user.email=e@x commit -q -m first"):
        subprocess.run(["git", *command.split()], check=True, cwd=tmp_path)
    (head,) = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.split()
    ended("bench", "ops.py", "--size", "64")
    assert load_run(find_run()).records[0].run.source.commit == head


def test_a_missing_extra_is_named(tmp_path):
    program = (
        "import importlib.util as u, sys; found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'pandas' else found(name, *more)\n"
        "import runpy; sys.argv = ['kernel-bridge', 'list']; runpy.run_module('suites', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == Exit.COULD_NOT_RUN
    assert (
        'not installed: pandas. Install them, in the folder of its source: python -m pip install ".[suites]"'
        in done.stderr
    )
