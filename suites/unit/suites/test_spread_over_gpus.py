"""A session on several GPUs: each worker process begins with another one, and the record says which one ran a cell."""

from types import SimpleNamespace

import jax
import pytest

from reports import Status
from suites import Backend, ops
from suites.bench import gpu
from suites.bench.visible_gpus import VARIABLE
from suites.cells.case import Case
from suites.checks.register import checks
from suites.sessions.finding import finding
from suites.unit.processes import run


class Gpu:
    """A stand-in for a device of JAX."""

    def __init__(self, number):
        self.local_hardware_id = number


WHAT_A_WORKER_SEES = """\
import os
from pathlib import Path

def test_gpus(worker_id):
    Path(__file__).with_name(worker_id).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
"""


def test_every_worker_of_a_session_begins_with_another_gpu(tmp_path):
    (tmp_path / "test_gpus.py").write_text(WHAT_A_WORKER_SEES)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run(
        "-m", "pytest", "-p", "no:cacheprovider", "-p", "suites.plugin", "--kb-device", "cuda", "-n", "3",
        "--dist", "each", "--rootdir", tmp_path, "-c", tmp_path / "pytest.ini", tmp_path / "test_gpus.py",
        **{VARIABLE: "GPU-a,GPU-b", "PYTEST_ADDOPTS": None},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen = {file.name: file.read_text() for file in tmp_path.glob("gw*")}
    assert seen == {"gw0": "GPU-a,GPU-b", "gw1": "GPU-b,GPU-a", "gw2": "GPU-a,GPU-b"}


@pytest.mark.parametrize(("count", "first", "expected"), [(2, 0, "GPU-0"), (2, 1, "GPU-1"), (1, 0, None)])
def test_a_check_records_its_gpu_if_there_are_several(monkeypatch, count, first, expected):
    gpus = [Gpu(number) for number in range(count)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: gpus)
    monkeypatch.setattr("suites.sessions.finding.replaced", lambda: None)  # a session would see the line above
    monkeypatch.setattr(gpu, "facts", lambda ordinal: {"uuid": f"GPU-{ordinal}"})
    monkeypatch.setattr(Case, "device", gpus[first])
    case = Case(ops.operators()["add"], Backend.NUMBA_CUDA, "float32", 64, "cuda")
    (eager,) = (check for check in checks() if check.name == "eager")
    report = SimpleNamespace(nodeid=f"test_eager.py::{eager.function}[{case.id}]", skipped=False, failed=False)
    found = finding(case, None, None, report)
    assert found["status"] == Status.PASSED
    assert found["gpu"] == expected
