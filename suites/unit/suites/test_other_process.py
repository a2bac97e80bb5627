"""Kernels run in a process that shows no sign of a test."""

import json
import sys

import numpy as np
import pytest

from suites import Backend
from suites.cells import catalogue
from suites.cells.case import Case
from suites.checks.judging.other_process import OtherProcessError, _load, _save, run_elsewhere

FILE = """\
import ctypes, os, sys
import numba
from suites import Operator

TESTED = bool({"pytest", "hypothesis", "xdist"} & set(sys.modules)) or any(
    name.startswith(("PYTEST", "KERNEL_BRIDGE", "HYPOTHESIS")) for name in os.environ
)
THREADS = numba.config.NUMBA_NUM_THREADS
abort = ctypes.CDLL(None).abort
abort.argtypes = []

@numba.njit
def signs(x, out):
    out[:] = 10 * TESTED + THREADS

@numba.njit
def crash(x, out):
    abort()

OPERATORS = [
    Operator(name="signs", reference=lambda x: x, kernels={"numba": signs}, dtypes=("float32",)),
    Operator(name="crash", reference=lambda x: x, kernels={"numba": crash}, dtypes=("float32",)),
]
"""


@pytest.fixture
def sources(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(FILE)
    catalogue.use([str(path)])
    yield catalogue.sources()
    catalogue.use([])


def test_a_kernel_finds_no_sign_of_a_test_there_and_a_crash_is_a_failure(sources):
    assert "pytest" in sys.modules
    case = Case(catalogue.operators()["signs"], Backend.NUMBA, "float32", 5, "cpu")
    inputs = (np.zeros(4, np.float32),)
    eager, compiled = run_elsewhere(case, sources, [inputs])
    assert eager[0].tolist() == compiled[0].tolist() == [3.0] * 4
    crash = Case(catalogue.operators()["crash"], Backend.NUMBA, "float32", 5, "cpu")
    with pytest.raises(OtherProcessError, match="the process ended with signal 6"):
        run_elsewhere(crash, sources, [inputs])
    assert len(run_elsewhere(case, sources, [inputs, inputs])) == 4  # the server goes on


def test_arrays_of_every_dtype_go_through_a_file(tmp_path):
    import jax.numpy as jnp

    sets = [(np.arange(6, dtype=np.int64).reshape(2, 3), np.ones((), bool)), (np.zeros(3, jnp.bfloat16), np.zeros(0))]
    _save(tmp_path / "arrays.npz", sets)
    found = _load(tmp_path / "arrays.npz")
    shown = [[(array.dtype.name, array.shape, array.tolist()) for array in one] for one in found]
    assert shown == [[(array.dtype.name, array.shape, array.tolist()) for array in one] for one in sets]
    assert json.dumps([[each[1] for each in one] for one in shown]) == "[[[2, 3], []], [[3], [0]]]"
