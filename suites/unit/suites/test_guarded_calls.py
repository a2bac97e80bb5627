"""Guard pages see every access that leaves an array, name its element, and let right kernels pass."""

import jax
import numba
import numpy as np
import pytest

import bridge
from suites.guards import filled_heap, page_faults
from suites.guards.guarded_calls import guarded_calls
from suites.unit import processes
from suites.unit.bridge import kernels, toy_c

pytestmark = pytest.mark.skipif(page_faults.MISSING is not None, reason=str(page_faults.MISSING))

READS, WRITES = ("reads", "writes") if page_faults._HAS_ERROR_CODE else ("accesses", "accesses")


def kernel(function, **options):
    compiled = numba.njit(**options)(function)
    return bridge.numba_kernel(compiled, lambda x, *_: jax.ShapeDtypeStruct(x.shape, x.dtype))


def read_past(x, out):
    total = x.dtype.type(0)
    for i in range(x.size + 1):
        total += x[i]
    out[:] = total


def read_past_in_parallel(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + x[i + 1]


def written_past(x, out):
    for i in range(x.size + 1):
        out[i] = 1


def read_before(x, out):
    for i in range(x.size):
        out[i] = x[np.uint64(i) - np.uint64(1)]


X = np.arange(1, 258, dtype=np.float32)


def findings(call, *inputs):
    """What the guards note of one call in each of the two runs, and the results."""
    program = jax.jit(call).lower(*inputs).compile()
    placed = list(map(jax.device_put, inputs))
    noted, results = [], []
    for run in (0, 1):
        with guarded_calls(run) as guards:
            results.append([np.array(leaf) for leaf in jax.tree.leaves(jax.block_until_ready(program(*placed)))])
        assert guards.calls
        noted.append([(each.kind, each.array, each.element, each.elements) for each in guards.findings])
    return noted, results


@pytest.mark.parametrize(("dtype", "size"), [("bool", 33), ("uint16", 1), ("float64", 4096), ("complex128", 33)])
def test_every_item_size_is_guarded_exactly(dtype, size):
    def copied(x, out):
        for i in range(x.size):
            out[i] = x[i]

    x = np.ones(size, dtype)
    assert findings(kernel(copied), x)[0] == [[], []]
    with jax.enable_x64(True):
        assert findings(kernel(copied), x)[0] == [[], []]
        assert (READS, "input 0", size, size) in findings(kernel(read_past), np.ones(size, "int64"))[0][0]


ACCESSES = {
    "right": (kernel(kernels.double.py_func), X, 0, []),
    "past the end": (kernel(read_past), X, 0, [(READS, "input 0", 257, 257)]),
    "past the end in parallel": (kernel(read_past_in_parallel, parallel=True), X, 0, [(READS, "input 0", 257, 257)]),
    "written past the end": (kernel(written_past), X, 0, [(WRITES, "output 0", 257, 257)]),
    "before the beginning": (kernel(read_before), X, 1, [(READS, "input 0", -1, 257)]),
    "past a batch": (jax.vmap(kernel(read_past)), np.stack([X] * 3), 0, [(READS, "input 0", 771, 771)]),
}


@pytest.mark.parametrize(("call", "inputs", "run", "expected"), ACCESSES.values(), ids=ACCESSES)
def test_each_access_outside_is_noted_in_one_of_two_runs(call, inputs, run, expected):
    noted, results = findings(call, inputs)
    assert noted[run][: len(expected) or None] == expected
    if not expected:
        np.testing.assert_array_equal(results[run][0], 2 * X)


def test_an_empty_array_has_no_element():
    def first(x, out):
        out[0] = x[0]

    call = bridge.numba_kernel(numba.njit(first), jax.ShapeDtypeStruct((1,), np.float32))
    assert findings(call, X[:0])[0][0] == [(READS, "input 0", 0, 0)]


@pytest.mark.skipif(toy_c.COMPILER is None, reason="this machine has no C compiler")
def test_a_write_to_an_input_is_noted_even_if_it_changes_nothing():
    source = """void same(int64_t size, const float* x, float* out) {
        for (int64_t i = 0; i < size; i++) { ((volatile float*)x)[i] = x[i]; out[i] = x[i]; }
    }"""
    noted, results = findings(toy_c.c_kernel(source, "same", jax.ShapeDtypeStruct(X.shape, X.dtype)), X)
    assert noted[1][0] == (WRITES, "input 0", 0, 257)
    np.testing.assert_array_equal(results[1][0], X)


@pytest.mark.skipif(filled_heap.MISSING is not None, reason=str(filled_heap.MISSING))
@pytest.mark.parametrize("count", [2, 1000, 1 << 24])
def test_memory_that_a_kernel_allocates_is_not_zero(count):
    def summed(x, out):
        scratch = np.empty(count, np.float32)
        out[:] = np.abs(scratch).max() + x

    _, results = findings(kernel(summed), X)
    assert max(float(np.abs(result[0])) for (result,) in results) > 1e15


FOREIGN = """
import ctypes, faulthandler
from suites.guards import page_faults
faulthandler.enable()
with page_faults.noting():
    ctypes.string_at(64, 1)
"""


def test_a_fault_elsewhere_ends_the_process_as_before():
    process = processes.run("-c", FOREIGN)
    assert process.returncode == -11
    assert "Fatal Python error: Segmentation fault" in process.stderr
