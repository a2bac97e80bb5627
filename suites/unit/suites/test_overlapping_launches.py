"""Kernels that begin before the launch before them has ended wait before they touch memory, on GPUs that can do so."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from suites.backends import BACKENDS
from suites.backends.numba_cuda import await_launch, cuda, kernel, let_next_begin
from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.ops import operators
from suites.unit.suites.ptx import launches_of, ptx_of

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

WAIT, LET = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
OVERLAPPING = ("sum", "mean_std", "cumsum")
ARRAYS = [SimpleNamespace(dtype="float32", shape=(9,))] * 2


def waits_first(ptx: str) -> bool:
    """Whether a kernel waits in all threads, and before it reads or writes memory that other launches see."""
    before = ptx[ptx.index(".entry") : ptx.index(WAIT)]
    return not re.search(r"\b(ld|st|atom|red|ldu|cp)\.(?!param)|\bbra\b|@%p|\bret\b", before)


@kernel
def halved(x, out):
    let_next_begin()
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / np.float32(2)


@kernel
def increased(x, out):
    await_launch()
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + np.float32(1)


@kernel
def increased_too_early(x, out):
    value = x[cuda.threadIdx.x]
    await_launch()
    out[cuda.threadIdx.x] = value + np.float32(1)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_the_second_launch_of_an_operator_waits_for_the_first(name, monkeypatch):
    operator = operators()[name]
    first, second = launches_of(operator, operator.kernels[BACKENDS["numba_cuda_replay"]], "float32", monkeypatch)
    assert LET in ptx_of(*first, (9, 0))
    assert WAIT not in ptx_of(*first, (9, 0))
    assert waits_first(ptx_of(*second, (9, 0)))


def test_a_kernel_that_waits_too_late_is_found():
    assert waits_first(ptx_of(increased, ARRAYS, 1, (9, 0)))
    assert not waits_first(ptx_of(increased_too_early, ARRAYS, 1, (9, 0)))


@pytest.mark.parametrize("of", [halved, increased])
def test_gpus_without_the_instructions_leave_them_out(of):
    assert "griddepcontrol" in ptx_of(of, ARRAYS, 1, (10, 0))
    assert "griddepcontrol" not in ptx_of(of, ARRAYS, 1, (8, 9))
    assert "__nvvm_reflect" not in ptx_of(of, ARRAYS, 1, (8, 9))


@pytest.mark.parametrize(("of", "capability", "waits"), [
    (increased, (9, 0), True), (increased, (8, 0), False), (halved, (9, 0), False),
])  # fmt: skip
def test_the_bridge_finds_out_whether_a_kernel_waits(of, capability, waits, monkeypatch):
    from bridge.languages.numba_cuda.cuda_compilation import waits_for_launch

    library = SimpleNamespace(get_asm_str=lambda cc: ptx_of(of, ARRAYS, 1, cc))
    monkeypatch.setattr(cuda, "gpus", [SimpleNamespace(compute_capability=capability)])
    assert waits_for_launch(SimpleNamespace(_codelibrary=library), 0) == waits
