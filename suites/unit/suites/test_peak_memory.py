"""The memory of a call at its peak holds its outputs and its scratch memory, and nothing that was there before."""

import jax
import numba
import numpy as np
import pytest

from suites import Backend, Operator
from suites.bench import peak_memory
from suites.bench.peak_memory import host_peak
from suites.unit import processes

MIB = 1 << 20
SCRATCH = 64 * MIB

pytestmark = pytest.mark.skipif(not peak_memory._forget_peak(), reason="this system does not forget the peak")


@numba.njit
def with_scratch(x, out):
    scratch = np.empty(SCRATCH // 8, np.float64)
    scratch[:] = x[0]
    for i in range(out.size):
        out[i] = scratch[i] + x[i]


@numba.njit
def without_scratch(x, out):
    for i in range(out.size):
        out[i] = x[0] + x[i]


def peak(kernel, size):
    operator = Operator(name="own", reference=lambda x: x[0] + x, kernels={"numba": kernel})
    inputs = [np.ones(size, np.float32)]
    function = jax.jit(operator.build(Backend.NUMBA, inputs))
    arguments = [jax.device_put(array) for array in inputs]
    jax.block_until_ready(function(*arguments))
    return host_peak(function, arguments)


@pytest.mark.parametrize("mib", [1, 16])
def test_scratch_memory_counts_beside_the_outputs(mib):
    size = mib * MIB // 4
    assert peak(without_scratch, size) == pytest.approx(mib * MIB, rel=0.05, abs=MIB / 2)
    assert peak(with_scratch, size) == pytest.approx(SCRATCH + mib * MIB, rel=0.02)


def test_memory_that_the_process_freed_before_hides_nothing():
    """numpy's freed block would serve the call without a new page."""
    for _ in range(3):
        np.ones(SCRATCH // 4, np.float64)
    assert peak(with_scratch, 1024) == pytest.approx(SCRATCH, rel=0.02)


KEPT = f"""
from suites.bench.freed_memory import keep_freed_pages
from suites.unit.suites.test_peak_memory import peak, with_scratch
keep_freed_pages()
print([peak(with_scratch, 1024) / {SCRATCH} for _ in range(2)])
"""


def test_it_holds_where_freed_memory_is_kept():
    assert eval(processes.output("-c", KEPT)) == pytest.approx([1, 1], rel=0.02)


def test_a_small_call_needs_at_least_its_outputs():
    assert peak(without_scratch, 1024) >= 4096


def test_a_system_that_does_not_tell_gives_none(monkeypatch, tmp_path):
    monkeypatch.setattr(peak_memory, "_CLEAR", tmp_path)  # a folder cannot be written to
    assert peak(without_scratch, 1024) is None
