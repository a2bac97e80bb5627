"""relu: ``out[i] = max(x[i], 0)``; NaN stays NaN."""

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
    exact,
    no_sums,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import (
    aligned,
    kernel,
    maximum,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    store_neighbours,
    widened,
)
from suites.backends.warp import per_stream_tile, scalar, stream, wp


@numba.njit
def relu(x, out):
    zero = x.dtype.type(0)
    for i in range(out.size):
        value = x[i]
        # No comparison with NaN is true, so NaN is kept.
        out[i] = zero if value <= zero else value


@numba.njit(parallel=True)
def relu_parallel(x, out):
    if out.size < ONE_THREAD_BELOW:
        relu(x, out)
    else:
        zero = x.dtype.type(0)
        for i in numba.prange(out.size):
            value = x[i]
            out[i] = zero if value <= zero else value


@kernel
def relu_cuda(x, out):
    zero = widened(x.dtype.type(0))
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        store_neighbours(
            out,
            i,
            (
                maximum(a, zero),
                maximum(b, zero),
                maximum(c, zero),
                maximum(d, zero),
            ),
        )
    else:
        while i < stop:
            out[i] = maximum(widened(x[i]), zero)
            i += np.uint64(1)


@functools.cache
def relu_warp(dtype):
    element = scalar(dtype)

    @wp.kernel(module="unique")
    def relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = wp.where(x[i] <= element(0), element(0), x[i])

    return relu


@functools.cache
def relu_tiles(dtype):
    element = scalar(dtype)

    @wp.func
    def rectified(x: element):
        return wp.where(x <= element(0), element(0), x)

    return stream(rectified, dtype, 1)


def _truth(x):
    if x.dtype.kind != "f":
        return Truth((exact(np.maximum(x, 0)),))
    # Nothing is rounded; only subnormal numbers may become zero.
    return Truth((bounded(np.maximum(wide(x), 0), x.dtype),))


OPERATOR = Operator(
    name="relu",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [jnp.maximum(x, 0)],
    truth=_truth,
    kernels={
        "numba": relu,
        "numba_parallel": relu_parallel,
        "numba_cuda": CudaKernel(relu_cuda, neighbour_tiles),
        "warp": WarpKernel(relu_warp),
        "warp_tile": WarpKernel(relu_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise("out[i] = x[i] <= T(0) ? T(0) : x[i];", ("x",)),
        "pallas": pallas.elementwise(lambda x: [jnp.where(x <= 0, jnp.zeros_like(x), x)]),
    },
    dtypes=("float32", "float64", "int32", "float16"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient({0: 0}, no_sums),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: x.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
