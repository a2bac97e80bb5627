"""leaky_relu: ``out[i] = x[i]`` if it is positive, else ``0.01 * x[i]``; NaN stays NaN."""

import functools

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
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import aligned, kernel, neighbour_tile, neighbour_tiles, neighbours, store_neighbours
from suites.backends.warp import per_stream_tile, scalar, stream, wp

SLOPE = 0.01


@numba.njit
def leaky_relu(x, out):
    slope = x.dtype.type(SLOPE)
    for i in range(out.size):
        value = x[i]
        out[i] = value if value > 0 else slope * value


@numba.njit(parallel=True)
def leaky_relu_parallel(x, out):
    if out.size < ONE_THREAD_BELOW:
        leaky_relu(x, out)
    else:
        slope = x.dtype.type(SLOPE)
        for i in numba.prange(out.size):
            value = x[i]
            out[i] = value if value > 0 else slope * value


@kernel
def leaky_relu_cuda(x, out):
    # A float literal is float64, and every product with it would be float64 too.
    slope, zero = x.dtype.type(SLOPE), x.dtype.type(0)
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        # Takes the larger of two values: a comparison with zero would become a branch, and signs are mixed.
        store_neighbours(out, i, (max(a, slope * a), max(b, slope * b), max(c, slope * c), max(d, slope * d)))
    else:
        while i < stop:
            value = x[i]
            out[i] = value if value > zero else slope * value
            i += np.uint64(1)


@functools.cache
def leaky_relu_warp(dtype):
    element = scalar(dtype)
    slope = element(SLOPE)  # a Python float would be rounded to float32 by older releases of Warp

    @wp.kernel(module="unique")
    def leaky_relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = wp.where(x[i] > element(0), x[i], slope * x[i])

    return leaky_relu


@functools.cache
def leaky_relu_tiles(dtype):
    element = scalar(dtype)
    slope = element(SLOPE)

    @wp.func
    def leaky(x: element):
        return wp.where(x > element(0), x, slope * x)

    return stream(leaky, dtype, 1)


def _truth(x):
    """The slope is a parameter of the operation, so it has the input's precision."""
    slope = wide(np.array(SLOPE, x.dtype))
    value = np.where(wide(x) <= 0, slope * wide(x), wide(x))
    return Truth((bounded(value, x.dtype, ulps=1, flushed=2),))


OPERATOR = Operator(
    name="leaky_relu",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [jnp.where(x > 0, x, jnp.asarray(SLOPE, x.dtype) * x)],
    truth=_truth,
    kernels={
        "numba": leaky_relu,
        "numba_parallel": leaky_relu_parallel,
        "numba_cuda": CudaKernel(leaky_relu_cuda, neighbour_tiles),
        "warp": WarpKernel(leaky_relu_warp),
        "warp_tile": WarpKernel(leaky_relu_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise(f"out[i] = x[i] > T(0) ? x[i] : T({SLOPE}) * x[i];", ("x",)),
        "pallas": pallas.elementwise(lambda x: [jnp.where(x > 0, x, SLOPE * x)]),
    },
    dtypes=("float32", "float64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient({0: 2}, no_sums),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 2 * x.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
