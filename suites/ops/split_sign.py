"""split_sign: the positive part ``max(x[i], 0)`` and the negative part ``min(x[i], 0)``; NaN stays NaN in both."""

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
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import aligned, kernel, neighbour_tile, neighbour_tiles, neighbours, store_neighbours
from suites.backends.warp import STREAM_TILE, kernel_with, per_stream_tile, scalar, wp


@numba.njit
def split_sign(x, positive, negative):
    zero = x.dtype.type(0)
    for i in range(x.size):
        value = x[i]
        positive[i] = zero if value <= zero else value
        negative[i] = zero if value >= zero else value


@numba.njit(parallel=True)
def split_sign_parallel(x, positive, negative):
    if x.size < ONE_THREAD_BELOW:
        split_sign(x, positive, negative)
    else:
        zero = x.dtype.type(0)
        for i in numba.prange(x.size):
            value = x[i]
            positive[i] = zero if value <= zero else value
            negative[i] = zero if value >= zero else value


@kernel
def split_sign_cuda(x, positive, negative):
    zero = x.dtype.type(0)
    i, stop, full = neighbour_tile(x.size)
    if full and aligned(x) and aligned(positive) and aligned(negative):
        a, b, c, d = neighbours(x, i)
        above = zero if a <= zero else a, zero if b <= zero else b, zero if c <= zero else c, zero if d <= zero else d
        below = zero if a >= zero else a, zero if b >= zero else b, zero if c >= zero else c, zero if d >= zero else d
        store_neighbours(positive, i, above)
        store_neighbours(negative, i, below)
    else:
        while i < stop:
            value = x[i]
            positive[i] = zero if value <= zero else value
            negative[i] = zero if value >= zero else value
            i += np.uint64(1)


@functools.cache
def split_sign_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def split_sign(x: vector, positive: vector, negative: vector):
        i = wp.tid()
        value = x[i]
        positive[i] = wp.where(value <= element(0), element(0), value)
        negative[i] = wp.where(value >= element(0), element(0), value)

    return split_sign


@functools.cache
def split_sign_tiles(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def positive_part(x: element):
        return wp.where(x <= element(0), element(0), x)

    @wp.func
    def negative_part(x: element):
        return wp.where(x >= element(0), element(0), x)

    @kernel_with(positive_part, negative_part)
    def split_sign(x: vector, positive: vector, negative: vector):
        first = wp.tid() * STREAM_TILE
        if first + STREAM_TILE <= x.shape[0]:
            tile = wp.tile_load(x, shape=STREAM_TILE, offset=first, bounds_check=False)
            wp.tile_store(positive, wp.tile_map(positive_part, tile), offset=first, bounds_check=False)
            wp.tile_store(negative, wp.tile_map(negative_part, tile), offset=first, bounds_check=False)
        else:
            last_tile = wp.tile_load(x, shape=STREAM_TILE, offset=first)
            wp.tile_store(positive, wp.tile_map(positive_part, last_tile), offset=first)
            wp.tile_store(negative, wp.tile_map(negative_part, last_tile), offset=first)

    return split_sign


def _truth(x):
    if x.dtype.kind != "f":
        return Truth((exact(np.maximum(x, 0)), exact(np.minimum(x, 0))))
    # Nothing is rounded; only subnormal numbers may become zero.
    return Truth((bounded(np.maximum(wide(x), 0), x.dtype), bounded(np.minimum(wide(x), 0), x.dtype)))


OPERATOR = Operator(
    name="split_sign",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2,
    reference=lambda x: [jnp.maximum(x, 0), jnp.minimum(x, 0)],
    truth=_truth,
    kernels={
        "numba": split_sign,
        "numba_parallel": split_sign_parallel,
        "numba_cuda": CudaKernel(split_sign_cuda, neighbour_tiles),
        "warp": WarpKernel(split_sign_warp),
        "warp_tile": WarpKernel(split_sign_tiles, per_stream_tile),
    },
    dtypes=("float32", "float64", "int32"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient({0: 0}, no_sums),
    bytes_read=total_bytes,
    bytes_written=lambda x: 2 * total_bytes(x),
    flops=lambda x: 2 * x.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
