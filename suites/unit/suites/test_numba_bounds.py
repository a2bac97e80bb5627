"""Copies of Numba functions check their indices, and the functions that they call too."""

import jax
import numba
import numpy as np
import pytest

import bridge
from suites.kernels.numba_cpu.copies import with_options


@numba.njit
def taken(values, index):
    return values[index]


@numba.njit
def countdown(values, index):
    return values[index] if index >= values.size else countdown(values, index + 1)


def run(dispatcher, x):
    call = bridge.numba_kernel(with_options(dispatcher, boundscheck=True), jax.ShapeDtypeStruct(x.shape, x.dtype))
    return np.asarray(call(x))


X = np.arange(6, dtype=np.float32)


def test_a_right_kernel_gives_the_same_results():
    @numba.njit(fastmath=True)
    def shifted(x, out):
        for i in range(x.size):
            out[i] = taken(x, i) + x[i - 1]  # a negative index counts from the end

    np.testing.assert_array_equal(run(shifted, X), X + np.roll(X, 1))
    assert "boundscheck" not in {name for name, value in shifted.targetoptions.items() if value}


@pytest.mark.parametrize("helper", [taken, countdown])
def test_the_functions_that_it_calls_check_theirs(helper):
    taken(X, 0)  # compiled already, without checks

    @numba.njit(parallel=helper is taken, boundscheck=False)
    def by_way_of(x, out):
        scratch = np.ones(x.size, np.float32)
        for i in numba.prange(x.size):
            out[i] = helper(scratch, i + 1)

    with pytest.raises(jax.errors.JaxRuntimeError, match="IndexError: index is out of bounds"):
        run(by_way_of, X)
