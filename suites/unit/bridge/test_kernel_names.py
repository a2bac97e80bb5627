"""Checks that kernels of any name can be called, with default values."""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from bridge import export_checks, jax_kernel, numba_kernel

SPEC = jax.ShapeDtypeStruct((4,), np.float32)
X = jnp.arange(4.0)
NAMES = ["my kernel", 'a"b', "<lambda>", "dispatcher"]
FACTORS = {name: 2.0 + index for index, name in enumerate(NAMES)}
"""Kernels with different contents, because kernels of one content are the same kernel."""


def renamed(function, name):
    function.__name__ = function.__qualname__ = name
    return function


def with_a_default(factor):
    def _bind(x, out, scale=factor):
        for i in numba.prange(x.size):
            out[i] = scale * math.floor(x[i]) + 0 * factor

    return _bind


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_numba_kernels(name):
    kernel = numba.njit(renamed(with_a_default(FACTORS[name]), name))
    call = jax.jit(numba_kernel(kernel, SPEC))
    exported = jax.export.export(call, platforms=["cpu"], disabled_checks=export_checks())(SPEC)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(X), FACTORS[name] * X)
    np.testing.assert_array_equal(jax.vmap(call)(X[None])[0], FACTORS[name] * X)


def test_warp_kernels():
    # Warp takes the letters, digits and underscores of a name.
    for name in ("my kernel", "launch-dims"):

        def kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = 2.0 * x[i]

        (found,) = jax_kernel(wp.kernel(renamed(kernel, name)))(X)
        np.testing.assert_array_equal(found, 2 * X)
