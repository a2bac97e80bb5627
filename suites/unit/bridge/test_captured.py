"""Kernels that take a JAX array from their closure or globals: the error names the array, and the cure."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, jax_kernel, numba_kernel
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels

X = jnp.arange(3.0)
OUT = jax.ShapeDtypeStruct((3,), np.float32)
WEIGHTS = jnp.arange(1.0, 4.0)
SCALAR = jnp.float32(2)
HINT = "{} refers to the JAX array '{}', which compiled code cannot use. Make it a parameter of the kernel"


@numba.njit
def weighted(value, i):
    return value * WEIGHTS[i]


@numba.njit
def of_a_helper(x, out):
    for i in range(x.size):
        out[i] = weighted(x[i], i)


def closing_over(weights):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] * weights[i]

    return numba_kernel(kernel, OUT)(X)


def warp_calling(scalar):
    @wp.func
    def weigh(value: float):
        return value * scalar

    @warp_kernels.forward_only
    def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
        i = wp.tid()
        out[i] = weigh(x[i])

    return jax_kernel(kernel)(X)


CALLS = {
    "a helper": (lambda: numba_kernel(of_a_helper, OUT)(X), "weighted", "WEIGHTS"),
    "a traced array": (lambda: jax.jit(closing_over)(WEIGHTS), "kernel", "weights"),
    "warp": (lambda: warp_calling(SCALAR), "weigh", "scalar"),
}


@pytest.mark.parametrize(("call", "function", "name"), CALLS.values(), ids=CALLS)
def test_the_error_ends_with_the_array_and_the_cure(call, function, name):
    with pytest.raises(KernelCompileError, match="cannot compile") as caught:
        call()
    assert str(caught.value).splitlines()[-1].startswith(HINT.format(function, name))
