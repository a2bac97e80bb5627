"""A timing session loses no cell: whatever a kernel does to its process, each cell has a record."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports import RunUnwritable, RunWriter, Status, find_run, load_run
from reports.options import Exit
from suites.sessions import isolation
from suites.sessions.commands.command_line import main
from suites.unit.processes import environment

KERNELS = """\
import ctypes
import numba
from suites import Operator

abort, usleep = ctypes.CDLL(None).abort, ctypes.CDLL(None).usleep
abort.argtypes, usleep.argtypes = [], [ctypes.c_uint]

@numba.njit
def crash(x, out):
    abort()

@numba.njit
def hang(x, out):
    while True:
        usleep(100000)

@numba.njit
def wrong(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i] + (i == 3)

@numba.njit
def right(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

def operator(name, kernel):
    return Operator(name=name, reference=lambda x: 2 * x, kernels={"numba": kernel}, dtypes=("float32",))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    return tmp_path


def declare(*names):
    Path("ops.py").write_text(KERNELS + "".join(f'{name.upper()} = operator("{name}", {name})\n' for name in names))


def test_every_cell_has_a_record_whatever_a_kernel_does(folder, capfd):
    declare("crash", "hang", "right", "wrong")
    assert main(["bench", "ops.py", "--size", "64", "--processes", "2", "--timeout", "15"]) == Exit.WRONG
    run = load_run(find_run())
    assert not run.problems
    assert run.end is not None
    found = {(record.cell.operator, record.cell.backend): record for record in run.records}
    assert {operator: str(record.status) for (operator, backend), record in found.items() if backend == "numba"} == {
        "crash": "CRASHED",
        "hang": "TIMEOUT",
        "right": "PASSED",
        "wrong": "WRONG_VALUE",
    }
    assert found["crash", "numba"].reason == "the process ended with SIGABRT"
    assert "ended after 15 s" in found["hang", "numba"].reason
    for name in ("crash", "hang", "right", "wrong"):
        assert len(found[name, "jnp"].timing.processes) == 2
    right = found["right", "numba"]
    assert (right.timing.method, right.timing.cache, len(right.timing.processes)) == ("two_points", "hot", 2)
    assert all(process.program_ns and process.alone_ns for process in right.timing.processes)
    assert right.stages is not None
    assert right.accuracy is not None
    capfd.readouterr()


def test_a_session_that_is_killed_goes_on(folder):
    declare("right")
    command = [sys.executable, "-m", "suites", "bench", "ops.py", "--profile", "quick", "--processes", "2"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not any(b'"kind":"cell"' in path.read_bytes() for path in _files(folder)):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert load_run(find_run()).missing
    assert main(["bench", "ops.py", "--profile", "quick", "--processes", "2", "--resume", "latest"]) == Exit.FINE
    run = load_run(find_run())
    assert not run.missing
    assert run.begins == 2
    assert {record.status for record in run.records} == {Status.PASSED}


def _files(folder):
    return Path(folder, "runs").glob("*.jsonl")


def test_a_full_disk_ends_a_session_in_one_line(folder, monkeypatch, capfd):
    declare("right")

    def refuse(self, result, run=None):
        raise RunUnwritable("no space left on device")

    monkeypatch.setattr(RunWriter, "append", refuse)
    assert main(["bench", "ops.py", "--size", "64", "--processes", "2"]) == Exit.COULD_NOT_RUN
    error = capfd.readouterr().err
    assert "no space left on device" in error
    assert "Traceback" not in error


def test_pytest_times_the_same_cells_with_its_own_clock(folder):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "suites.plugin", "-q", "--kb-bench"]
    command += ["--pyargs", "suites.bench.test_speed", "--benchmark-json", "times.json", "--kb-operator", "sigmoid"]
    command += ["--kb-dtype", "f32", "--kb-backend", "numba", "--kb-backend", "jnp", "--kb-size", "4096"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(Path("times.json").read_text("utf-8"))["benchmarks"]
    assert {each["param"] for each in found} == {"sigmoid-jnp-f32-4096-cpu", "sigmoid-numba-f32-4096-cpu"}
    assert all(each["stats"]["rounds"] == 30 and 1e-6 < each["stats"]["median"] < 1e-1 for each in found)
    assert not Path("runs").exists()


def test_a_new_process_finds_a_project_that_only_the_current_folder_makes_importable(monkeypatch):
    monkeypatch.chdir(isolation.HERE.parent)
    root = str(isolation.HERE.parent)
    monkeypatch.setattr("sys.path", ["", *(path for path in sys.path if path not in ("", root)), root])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with isolation.isolated() as (variables, _):
        assert variables["PYTHONPATH"] == root
