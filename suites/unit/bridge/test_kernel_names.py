"""Checks that kernels of any name can be called, with and without default values and imports in their bodies."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from bridge import export_checks, jax_kernel, numba_cuda_kernel, numba_kernel

SPEC = jax.ShapeDtypeStruct((4,), np.float32)
X = jnp.arange(4.0)
NAMES = [
    "kernel",
    "my kernel",
    "def",
    "1",
    "a.b",
    'a"b',
    "<lambda>",
    "λ",
    "",
    "dispatcher",
    "__dispatcher",
    "call",
    "array0",
]
FACTORS = {name: 2.0 + index for index, name in enumerate(NAMES)}
"""Kernels with different contents, because kernels of one content are the same kernel."""


def renamed(function, name):
    function.__name__ = function.__qualname__ = name
    return function


def plain(factor):
    def kernel(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    return kernel


def with_a_default(factor):
    def kernel(x, out, scale=factor):
        for i in range(x.size):
            out[i] = scale * x[i]

    return kernel


def with_an_import(factor):
    def bind(x, out):
        import math

        for i in range(x.size):
            out[i] = factor * math.floor(x[i])

    return bind


def with_both(factor):
    def _bind(x, out, scale=factor):
        import math

        for i in range(x.size):
            out[i] = scale * math.floor(x[i]) + 0 * factor

    return _bind


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("parallel", [False, True], ids=["serial", "parallel"])
@pytest.mark.parametrize(
    "define", [plain, with_a_default, with_an_import, with_both], ids=lambda define: define.__name__
)
@pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning")
def test_numba_kernels(name, parallel, define):
    kernel = numba.njit(parallel=parallel)(renamed(define(FACTORS[name]), name))
    call = numba_kernel(kernel, SPEC)
    np.testing.assert_array_equal(call(X), FACTORS[name] * X)
    np.testing.assert_array_equal(jax.vmap(call)(X[None])[0], FACTORS[name] * X)


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_exported_numba_kernels(name):
    kernel = numba.njit(renamed(with_a_default(FACTORS[name] + 0.5), name))
    exported = jax.export.export(
        jax.jit(numba_kernel(kernel, SPEC)), platforms=["cpu"], disabled_checks=export_checks()
    )(SPEC)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(X), (FACTORS[name] + 0.5) * X)


def test_lambdas():
    @numba.njit
    def scale(x, out, factor):
        for i in range(x.size):
            out[i] = factor * x[i]

    kernel = numba.njit(lambda x, out, factor=5.0: scale(x, out, factor))
    np.testing.assert_array_equal(numba_kernel(kernel, SPEC)(X), 5 * X)


def test_warp_kernels():
    # Warp takes the letters, digits and underscores of a name.
    for name in ("kernel", "my kernel", "launch-dims"):

        def kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = 2.0 * x[i]

        (found,) = jax_kernel(wp.kernel(renamed(kernel, name)))(X)
        np.testing.assert_array_equal(found, 2 * X)


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("defaults", [False, True], ids=["plain", "with_a_default"])
def test_numba_cuda_kernels(name, defaults):
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        pytest.skip("no GPU")
    from numba import cuda

    factor = np.float32(FACTORS[name])

    def with_a_default(x, out, scale=factor):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = scale * x[i]

    def plain(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor * x[i]

    kernel = cuda.jit(renamed(with_a_default if defaults else plain, name))
    found = numba_cuda_kernel(kernel, SPEC, launch_dims=4)(jax.device_put(X, device))
    np.testing.assert_array_equal(found, factor * X)
