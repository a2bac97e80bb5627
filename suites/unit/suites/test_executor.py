"""``--executor``: parts that are lost are tried again, and the records are those of a run without an executor."""

import contextlib
import gzip
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from reports import Source, Status, find_run, load_run
from reports.options import Exit
from reports.options import part as part_of
from suites.cells import catalogue
from suites.cells.selection import Selection, part_text
from suites.commands import executor
from suites.commands.command_line import main
from suites.commands.part import run_part
from suites.processes.session_end import SessionEnd
from suites.timing.timed_selection import timed_cells
from suites.unit.processes import environment
from suites.unit.reports.builders import make_cell, make_record, make_run, whole
from suites.unit.suites.git_repositories import OPERATORS

COMMAND = ("bench", "ops.py", "--size", "8", "--size", "16", "--size", "32")
PARTS = ("1/3", "2/3", "3/3")


def recorded(words):
    """What a worker returns for the words of a part."""
    part = part_of(words[words.index("--part") + 1])
    catalogue.use(["ops.py"])
    cells = timed_cells(Selection(sources=("ops.py",), sizes=(8, 16, 32), part=part))
    selection = {"source": ["ops.py"], "size": ["8", "16", "32"]}
    run = make_run(selection=selection, part=part_text(part))
    return gzip.compress(whole([make_record(case.cell, run=run) for case in cells]))


class Executor:
    """Runs each part when it is submitted, and does with its result what the test says."""

    def __init__(self, *faults):
        self.faults = list(faults)
        self.submitted, self.made, self.cancelled, self.looks = [], 0, [], 0

    def make(self):
        self.made += 1
        return self

    def submit(self, function, words, folder):
        part = words[words.index("--part") + 1]
        self.submitted.append(part)
        fault = next((fault for fault in self.faults if fault[0] in (part, "any")), None)
        if fault and fault[0] == "any":
            self.faults.remove(fault)
        error = fault and fault[1]
        if isinstance(error, OSError):
            raise error
        future = Future()
        if error is KeyboardInterrupt:
            return SimpleNamespace(done=self.interrupted, cancel=lambda: self.cancelled.append(part))
        if error:
            future.set_exception(error)
        else:
            future.set_result(recorded(words))
        return future

    def interrupted(self):
        self.looks += 1
        if self.looks > 1:
            raise KeyboardInterrupt
        return False


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Types a command with an executor; returns the exit code and what is printed on standard error."""
    Path("ops.py").write_text(OPERATORS)
    monkeypatch.setattr(executor, "CELLS_OF_PART", 2)
    monkeypatch.setattr(executor, "_AGAIN_S", 0)

    def typed(own, *arguments):
        monkeypatch.setitem(sys.modules, "mine", own)
        code = main([*COMMAND, "--executor", "mine:make", *arguments])
        return code, capsys.readouterr().err

    return typed


def cells_of(path):
    return sorted(record.cell.id for record in load_run(path).records)


def test_lost_parts_are_tried_again_and_no_record_is_missing_or_there_twice(run):
    lost = [("any", OSError("a worker was killed")), ("any", ValueError("no memory")), ("any", CancelledError())]
    own = Executor(*lost)
    code, said = run(own)
    assert code == Exit.FINE, said
    assert re.search(r"^part ./3 is lost: ValueError: no memory; it is tried again$", said, re.MULTILINE)
    assert own.made == 2, "a pool that takes nothing more is replaced"
    merged = load_run(find_run())
    assert (merged.is_complete, merged.problems) == (True, [])
    assert {header.part for header in merged.headers} == {*PARTS}
    assert cells_of(find_run()) == sorted(
        f"twice-{backend}-f32-{size}-cpu" for backend in ("jnp", "numba") for size in (8, 16, 32)
    )
    assert "6 cells: 6 passed" in said


def test_a_part_that_is_given_up_is_named_and_can_be_run_elsewhere_or_later(run, capsys):
    code, said = run(Executor(("2/3", MemoryError())))
    assert code == Exit.COULD_NOT_RUN
    assert said.count("part 2/3 is lost: MemoryError") >= executor.TRIES
    assert "after 3 tries, these parts are missing: 2/3; 2 cells are left. Continue with:" in said
    (line,) = re.findall(r"^    kernel-bridge (.*)$", said, re.MULTILINE)
    path = str(find_run())
    assert main(["merge", "--missing", path]) == Exit.COULD_NOT_RUN
    words = shlex.split(capsys.readouterr().out)
    options = "--size 8 --size 16 --size 32 --device cpu --profile quick --part 2/3"
    assert words == ["kernel-bridge", "bench", "ops.py", *options.split()]
    Path("elsewhere.jsonl").write_bytes(gzip.decompress(recorded(words)))
    assert main(["merge", "elsewhere.jsonl", path, "--runs", "whole"]) == Exit.FINE
    (whole_run,) = Path("whole").glob("*.jsonl")
    assert main(["merge", "--missing", str(whole_run)]) == Exit.FINE
    Path("alone.jsonl").write_bytes(whole([make_record()]))
    for words, refused in (
        (["elsewhere.jsonl"], "part 1/3 is missing"),
        (["elsewhere.jsonl"] * 2, "Name each part once"),
        (["elsewhere.jsonl", "alone.jsonl"], "alone.jsonl: is not a part of a run: it was recorded without --part"),
    ):
        assert main(["merge", *words]) == Exit.COULD_NOT_RUN
        assert refused in capsys.readouterr().err
    own = Executor()
    words = shlex.split(line)
    assert run(own, *words[len(COMMAND) + 2 :])[0] == Exit.FINE
    assert own.submitted == ["2/3"]
    assert cells_of(path) == cells_of(whole_run)
    again = Executor()
    assert run(again, "--resume", path)[0] == Exit.FINE
    assert again.submitted == []


def test_merged_parts_say_which_kernel_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for part, outcome in (("1/2", {"status": Status.WRONG_VALUE, "reason": "far off"}), ("2/2", {})):
        cell = make_cell(operator="cube", size=int(part[0]))
        Path(f"{part[0]}.jsonl").write_bytes(whole([make_record(cell, run=make_run(part=part), **outcome)]))
    assert main(["merge", "1.jsonl", "2.jsonl", "--runs", "merged"]) == Exit.WRONG
    assert "cube numba float32: is wrong: far off (check forward)" in capsys.readouterr().out


def test_an_interrupted_validation_names_a_wrong_kernel(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wrong = make_record(make_cell(operator="cube"), run=make_run(), status=Status.WRONG_VALUE, reason="far off")
    Path("run.jsonl").write_bytes(whole([wrong]))
    end = SessionEnd(path=Path("run.jsonl"), left=2, interrupted=True, code=pytest.ExitCode.INTERRUPTED)
    monkeypatch.setattr("suites.validate.command.validate", lambda *arguments, **options: end)
    assert main(["validate", "--operator", "add", "--device", "cpu"]) == Exit.WRONG
    said = capsys.readouterr()
    assert "cube numba float32: is wrong: far off (check forward)" in said.out
    assert "interrupted; 2 cells are left. Continue with:" in said.err


def test_ctrl_c_cancels_what_waits_and_keeps_what_has_arrived(run):
    own = Executor(("2/3", KeyboardInterrupt))
    code, said = run(own)
    assert code == Exit.COULD_NOT_RUN
    assert own.cancelled == ["2/3"]
    assert "interrupted; 2 cells are left" in said
    assert len(load_run(find_run()).records) == 4


def test_a_part_of_another_machine_with_other_sources_is_refused(run, monkeypatch):
    own = Executor()
    sources = iter(["one", "two", "two"])
    before = make_run
    monkeypatch.setattr(f"{__name__}.make_run", lambda **fields: before(**fields, source=Source(digest=next(sources))))
    code, said = run(own)
    assert code == Exit.COULD_NOT_RUN
    assert "is a part of another run. content of the source files: 'two', the first part has 'one'" in said


def test_a_worker_says_why_a_command_recorded_nothing(tmp_path):
    with pytest.raises(RuntimeError, match=r"exit code 3: .* validate: none\.py: there is no such file"):
        run_part(("validate", "none.py"), str(tmp_path))


INTERRUPTS_READING = """
import os, pathlib, runpy, signal, sys, threading, time
from suites.commands import command_line

def main(words):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # as pytest does
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    for thread in threading.enumerate():
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
    time.sleep(0.5)
    pathlib.Path(words[-1], "run.jsonl").write_text("recorded")
    return 0

command_line.main = main
runpy.run_module("suites.commands.part_process", run_name="__main__")
"""


def test_a_read_that_is_interrupted_is_no_worker_that_died():
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTS_READING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert gzip.decompress(process.stdout.read()) == b"recorded"
        assert process.wait() == 0


ENGINES = {
    "concurrent.futures": "import concurrent.futures as f\ndef make():\n    return f.ProcessPoolExecutor(2)\n",
    "dask": "from dask.distributed import Client\ndef make():\n"
    "    return Client(n_workers=2, threads_per_worker=1, dashboard_address=None).get_executor()\n",
    "submitit": "import submitit\ndef make():\n    return submitit.AutoExecutor('jobs', cluster='local')\n",
}
WRONG = OPERATORS + OPERATORS.replace("twice", "wrong").replace("OPERATOR", "OTHER").replace("out[i] = 2", "out[i] = 3")


VALIDATE = [sys.executable, "-m", "suites", "validate", "ops.py", "--profile", "quick", "--seed", "1"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A validation without an executor: its exit code, what it prints, and its run."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "ops.py").write_text(WRONG)
    done = subprocess.run(VALIDATE, cwd=folder, env=environment(COLUMNS="100"), capture_output=True, text=True)
    return done.returncode, done.stdout, load_run(find_run("latest", folder / "runs"))


def children(pid):
    """The processes that a process started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]


def worker_with_a_part(pid):
    """A process below this one that has started the process of a part; None if there is none."""
    below = [pid]
    for each in below:
        with contextlib.suppress(OSError):
            below += children(each)
            if each != pid and any(b"suites.commands.part" in command(one) for one in children(each)):
                return each
    return None


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_on_an_engine_of_which_a_worker_is_killed_is_that_of_one_process(engine, folder, alone):
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    Path("ops.py").write_text(WRONG)
    Path("mine.py").write_text(ENGINES[engine])
    with subprocess.Popen(
        [*VALIDATE, "--executor", "mine:make"], env=environment(COLUMNS="100", TMPDIR=str(folder)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        while (worker := worker_with_a_part(process.pid)) is None:
            assert process.poll() is None
            time.sleep(0.1)
        os.kill(worker, signal.SIGKILL)
        said, _ = process.communicate(timeout=500)
    code, shown, expected = alone
    assert process.returncode == code == Exit.WRONG, said
    found = load_run(find_run("latest", "runs"))
    assert (found.is_complete, found.problems, len(found.records)) == (True, [], len(expected.records))
    assert {record.cell.key: record.status for record in found.records} == {
        record.cell.key: record.status for record in expected.records
    }
    for line in (
        r"^twice PASSED: .*$",
        r"^wrong numba float32: is wrong: ",
        r"^2 kernels: 1 passed, 1 wrong\. Repeat: ",
    ):
        (one,), (other,) = (re.findall(line, text, re.MULTILINE) for text in (shown, said))
        assert one == other
    assert list(folder.glob("kernel-bridge-*")) == [], "no folder of a killed part stays"
