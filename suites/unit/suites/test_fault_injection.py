"""Kernels that raise, return NaN, crash, exhaust memory or write outside: each is recorded, and the others go on."""

from pathlib import Path

import pytest

from reports import find_run, load_run
from reports.options import Exit
from suites.sessions.commands.command_line import main

KERNELS = """\
import ctypes
import numba
import numpy as np
from suites import Operator

kill, getpid = ctypes.CDLL(None)["kill"], ctypes.CDLL(None)["getpid"]
kill.argtypes, getpid.argtypes = [ctypes.c_int, ctypes.c_int], []

@numba.njit
def raises(x, out):
    if x.size > 1:
        raise ValueError("the step size must be positive")
    for i in range(x.size):
        out[i] = 2 * x[i]

@numba.njit
def nan(x, out):
    for i in range(x.size):
        out[i] = np.nan if i == 3 else 2 * x[i]

@numba.njit
def segfault(x, out):
    kill(getpid(), 11)

@numba.njit
def exhausts(x, out):
    block = np.zeros(x.size << 50)
    for i in range(x.size):
        out[i] = 2 * x[i] + block[i]

@numba.njit
def outside(x, out):
    for i in range(x.size + 1):
        out[i] = 2 * x[min(i, x.size - 1)]

@numba.njit
def right(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

for kernel in (raises, nan, segfault, exhausts, outside, right):
    name = kernel.__name__
    globals()[name.upper()] = Operator(
        name=name, reference=lambda x: 2 * x, kernels={"numba": kernel}, dtypes=("float32",)
    )
"""

EXPECTED = {
    "raises": ("RUNTIME_ERROR", "ValueError: the step size must be positive"),
    "nan": ("WRONG_VALUE", "nan"),
    "segfault": ("CRASHED", "the process ended with SIGSEGV"),
    "exhausts": ("OOM", "MemoryError"),
    "outside": ("OUT_OF_BOUNDS", "past its end"),
    "right": ("PASSED", ""),
}
"""The status that is recorded for each kernel, and a part of the reason."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    return tmp_path


def test_each_fault_is_recorded_as_what_it_is_and_the_other_cells_go_on(folder, capfd):
    Path("ops.py").write_text(KERNELS)
    code = main(["bench", "ops.py", "--size", "64", "--processes", "1", "--backend", "numba", "--timeout", "60"])
    capfd.readouterr()
    run = load_run(find_run())
    found = {record.cell.operator: (str(record.status), record.reason or "") for record in run.records}
    assert {name: status for name, (status, _) in found.items()} == {name: one for name, (one, _) in EXPECTED.items()}
    for name, (_, reason) in EXPECTED.items():
        assert reason in found[name][1], found[name]
    assert run.end is not None
    assert code == Exit.WRONG
