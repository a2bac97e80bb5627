"""A timing session loses no cell: whatever a kernel does to its process, each cell has a record."""

import re
from pathlib import Path

from reports import find_run, load_run
from reports.options import Exit
from reports.pages.columns import ratio_to_baseline_text
from reports.pages.rows import cell_rows
from reports.render.units import TIMES, ratio_text
from suites.commands.command_line import main

KERNELS = """\
import ctypes
import numba
from suites import Operator

abort, usleep = ctypes.CDLL(None).abort, ctypes.CDLL(None).usleep
abort.argtypes, usleep.argtypes = [], [ctypes.c_uint]

@numba.njit
def crash(x, out):
    out[0] = x[0]
    abort()

@numba.njit
def hang(x, out):
    out[0] = x[0]
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

def operator(name, kernel, **more):
    return Operator(name=name, reference=lambda x: 2 * x, kernels={"numba": kernel}, dtypes=("float32",), **more)
"""
UNUSABLE = """
import numpy as np
UNUSABLE = operator(
    "unusable", right, sample=lambda dtype, size, seed: (np.full(size, 1 / (64 - size) if size == 64 else 1, dtype),)
)
"""


def declare(*names, more=""):
    declared = "".join(f'{name.upper()} = operator("{name}", {name})\n' for name in names)
    Path("ops.py").write_text(KERNELS + declared + more)


def test_every_cell_has_a_record_whatever_a_kernel_does(folder, capfd):
    declare("crash", "hang", "right", "wrong", more=UNUSABLE)
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
        "unusable": "UNCHECKED",
    }
    assert "ZeroDivisionError" in found["unusable", "numba"].reason
    assert found["crash", "numba"].reason == "the process ended with SIGABRT"
    assert "ended after 15 s" in found["hang", "numba"].reason
    for name in ("crash", "hang", "right", "wrong"):
        assert len(found[name, "jnp"].timing.processes) == 2
    right = found["right", "numba"]
    assert (right.timing.method, right.timing.cache, len(right.timing.processes)) == ("two_points", "hot", 2)
    assert all(process.program_ns for process in right.timing.processes)
    assert right.stages is not None
    assert right.accuracy is not None
    shown = capfd.readouterr()
    assert all(word in shown.out for word in ("CRASHED", "TIMEOUT"))
    live = dict(re.findall(rf"^(\w+) +f32 +64 +numba .*? ([=\d.]+){TIMES}jnp$", shown.err, re.MULTILINE))
    rows = [row for row in cell_rows(run.records) if row.ratio and row.cell.backend == "numba"]
    table = {row.cell.operator: ratio_to_baseline_text(row).text for row in rows}
    assert live == table, "a live line says what the table says, and nothing where that says nothing"
    printed = ratio_text(found["right", "numba"].timing.median_ns / found["right", "jnp"].timing.median_ns)
    assert live["right"].lstrip("=") == printed, "which is the quotient of the two printed times"
    *_, wrong, why, last = shown.err.splitlines()
    assert wrong.startswith("WRONG_VALUE numba: ")
    assert why.startswith("Find out why: kernel-bridge validate ops.py --device cpu --operator crash --operator hang")
    assert last.startswith("10 cells: ")
