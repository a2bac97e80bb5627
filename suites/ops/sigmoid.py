"""sigmoid: ``out[i] = 1 / (1 + exp(-x[i]))``."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import (
    CudaKernel,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    no_sums,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import cuda_raw, pallas, peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, exponential
from suites.backends.numba_cuda import (
    aligned,
    device,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    quotient,
    store_neighbours,
    widened,
)
from suites.backends.warp import per_stream_tile, scalar, stream, wp
from suites.backends.warp import quotient as warp_quotient


@numba.njit(error_model="numpy")
def sigmoid(x, out):
    one = x.dtype.type(1)
    for i in range(out.size):
        out[i] = one / (one + exponential(-x[i]))


@numba.njit(parallel=True, error_model="numpy")
def sigmoid_parallel(x, out):
    if out.size < ONE_THREAD_BELOW:
        sigmoid(x, out)
    else:
        one = x.dtype.type(1)
        for i in numba.prange(out.size):
            out[i] = one / (one + exponential(-x[i]))


@device
def logistic(value, one):
    return quotient(one, one + math.exp(-value))


@kernel
def sigmoid_cuda(x, out):
    one = widened(x.dtype.type(1))
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        store_neighbours(out, i, (logistic(a, one), logistic(b, one), logistic(c, one), logistic(d, one)))
    else:
        while i < stop:
            out[i] = logistic(widened(x[i]), one)
            i += np.uint64(1)


@functools.cache
def sigmoid_warp(dtype):
    element = scalar(dtype)
    # In half precision the exponential of 12 overflows.
    wider = wp.float32 if dtype == "float16" else element

    @wp.kernel(module="unique")
    def sigmoid(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = element(wider(1) / (wider(1) + wp.exp(-wider(x[i]))))

    return sigmoid


@functools.cache
def sigmoid_tiles(dtype):
    element = scalar(dtype)

    @wp.func
    def logistic_of(x: element):
        return element(1) / (element(1) + wp.exp(-x))

    @wp.func
    def logistic_in_float32(x: element):
        return element(warp_quotient(wp.float32(1), wp.float32(1) + wp.exp(-wp.float32(x))))

    return stream(logistic_of if dtype == "float64" else logistic_in_float32, dtype, 1)


def _truth(x):
    """The exponential e has four roundings (see exp_trace), the sum one, and the quotient up to four (2 ulp).

    The relative error of e reaches the result with a factor of ``e / (1 + e)``, which is below one: nine roundings in
    all. If e overflows, the result is zero instead of a number below the smallest normal one.
    """
    with np.errstate(over="ignore"):
        value = 1 / (1 + np.exp(-wide(x)))
    return Truth((bounded(value, x.dtype, condition=value, terms=9),))


_ADJOINT_ROUNDINGS = 20
"""Roundings of the derivative ``e / (1 + e) ** 2``, each relative to the result.

The exponential e has four, the sum five, and its square eleven. With four of e, four of the quotient, and one of the
product with the cotangent these are 20.
"""


OPERATOR = Operator(
    name="sigmoid",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [1 / (1 + jnp.exp(-x))],
    truth=_truth,
    kernels={
        "numba": sigmoid,
        "numba_parallel": sigmoid_parallel,
        "numba_cuda": CudaKernel(sigmoid_cuda, neighbour_tiles),
        "warp": WarpKernel(sigmoid_warp),
        "warp_tile": WarpKernel(sigmoid_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise("out[i] = quotient(T(1), T(1) + exp(-x[i]));", ("x",)),
        "pallas": pallas.elementwise(lambda x: [1 / (1 + jnp.exp(-x))]),
    },
    peers=peers.SIGMOID,
    dtypes=("float32", "float64", "float16"),
    sample=lambda dtype, size, seed: (4 * values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    # The derivative of the reference is NaN if the exponential overflows, as it does in half precision.
    gradient=Gradient({0: _ADJOINT_ROUNDINGS}, no_sums, dtypes=("float32", "float64")),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 4 * x.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
