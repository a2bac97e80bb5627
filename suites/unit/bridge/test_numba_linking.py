"""A kernel and the helpers that it calls become one function, and stay what they were."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from bridge.languages.numba_cpu.loading import Loader


@numba.njit
def weighted(x, first, last, weights):
    total = x.dtype.type(0)
    for i in range(first, last):
        total += x[i] * weights[i] if x[i] > 0 else weights[i] / (x[i] - 1)
    return total


@numba.njit
def row_sums(A, weights, first, last, out):
    for row in range(first, last):
        half = weights.size // 2
        out[row] = weighted(A[row], 0, half, weights) + weighted(A[row], half, weights.size, weights)


@numba.njit
def kernel(A, weights, out):
    if A.shape[1] != weights.size:
        raise ValueError("as many weights as columns")
    row_sums(A, weights, 0, out.size // 2, out)
    row_sums(A, weights, out.size // 2, out.size, out)


@numba.njit
def countdown(n):
    return 1 if n <= 0 else n + countdown(n - 1)


@numba.njit
def recursive(x, out):
    for i in range(out.size):
        out[i] = countdown(x[i])


@pytest.fixture
def loaded(monkeypatch):
    """The functions that each loaded module defines, and those that it declares."""
    modules, load = [], Loader.load

    def spy(self, module, machine, symbols):
        defined = [each.name for each in module.functions if not each.is_declaration]
        modules.append((defined, [each.name for each in module.functions if each.is_declaration]))
        return load(self, module, machine, symbols)

    monkeypatch.setattr(Loader, "load", spy)
    return modules


def test_helpers_are_inlined_and_count_no_references(loaded):
    A = np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)
    weights = np.arange(9, dtype=np.float32)
    out = bridge.numba_kernel(kernel, jax.ShapeDtypeStruct((5,), jnp.float32))(A, weights)
    expected = np.where(A > 0, A * weights, weights / (A - 1)).sum(axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    (module,) = (names for names in loaded if any("bridge_entry" in name for name in names[0]))
    assert len(module[0]) == 1
    assert not any("incref" in name or "decref" in name for name in module[1])


def test_an_exception_of_an_inlined_kernel_keeps_its_text():
    wrong = bridge.numba_kernel(kernel, jax.ShapeDtypeStruct((5,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: as many weights as columns"):
        jax.block_until_ready(wrong(np.zeros((5, 9), np.float32), np.zeros(8, np.float32)))


def test_helpers_that_call_themselves_work():
    call = bridge.numba_kernel(recursive, jax.ShapeDtypeStruct((3,), jnp.int32))
    np.testing.assert_array_equal(call(np.array([0, 3, 10], np.int32)), [1, 7, 56])
