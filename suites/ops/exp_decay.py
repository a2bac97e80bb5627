"""exp_decay: ``out[i] = x[i] * exp(-decay[0])``."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import CudaKernel, Gradient, Operator, Sizes, Truth, WarpKernel, bounded, total_bytes, values, vectors, wide
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import aligned, kernel, neighbour_tile, neighbour_tiles, neighbours, store_neighbours
from suites.backends.warp import TILE, per_tile, scalar, wp

_EXP_ROUNDINGS = 4
"""The error of exponential functions in roundings: two units in the last place are four roundings (see exp_trace)."""


@numba.njit
def exp_decay(x, decay, out):
    factor = x.dtype.type(math.exp(-decay[0]))
    for i in range(out.size):
        out[i] = x[i] * factor


@numba.njit(parallel=True)
def exp_decay_parallel(x, decay, out):
    if out.size < ONE_THREAD_BELOW:
        exp_decay(x, decay, out)
    else:
        factor = x.dtype.type(math.exp(-decay[0]))
        for i in numba.prange(out.size):
            out[i] = x[i] * factor


@kernel
def exp_decay_cuda(x, decay, out):
    factor = math.exp(-decay[0])
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        store_neighbours(out, i, (a * factor, b * factor, c * factor, d * factor))
    else:
        while i < stop:
            out[i] = x[i] * factor
            i += np.uint64(1)


@functools.cache
def exp_decay_warp(dtype):
    """The launch of a block for each tile: the CPU then computes one exponential function for many elements as well."""
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def exp_decay(x: vector, decay: vector, out: vector):
        first = wp.tid() * TILE
        factor = wp.exp(-decay[0])
        wp.tile_store(out, wp.tile_load(x, shape=TILE, offset=first) * factor, offset=first)

    return exp_decay


def _truth(x, decay):
    with np.errstate(invalid="ignore", over="ignore"):
        value = wide(x) * np.exp(-wide(decay))
    return Truth((bounded(value, x.dtype, condition=np.abs(value), terms=_EXP_ROUNDINGS + 1, flushed=2),))


def _sample(dtype, size, seed):
    return values(dtype, size, np.random.default_rng(seed)), np.full(1, 0.1, dtype)


def _edges(dtype):
    decay = np.full(1, 0.1, dtype)
    ones = np.ones(3, dtype)
    return {name: (vector, decay) for name, vector in vectors(dtype).items()} | {
        "no_decay": (ones, np.zeros(1, dtype)),
        "instant_decay": (ones, np.full(1, np.inf, dtype)),
        "nan_decay": (ones, np.full(1, np.nan, dtype)),
    }


OPERATOR = Operator(
    name="exp_decay",
    version=1,
    outputs=lambda x, decay: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x, decay: [x * jnp.exp(-decay[0])],
    truth=_truth,
    kernels={
        "numba": exp_decay,
        "numba_parallel": exp_decay_parallel,
        "numba_cuda": CudaKernel(exp_decay_cuda, neighbour_tiles),
        "warp": WarpKernel(exp_decay_warp, per_tile),
        "cuda_raw": cuda_raw.elementwise(
            "out[i] = x[i] * factor;", ("x", "decay"), constants="const T factor = exp(-decay[0]);"
        ),
        "pallas": pallas.elementwise(lambda x, decay: [x * jnp.exp(-decay)], long_inputs=1),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    gradient=Gradient({0: _EXP_ROUNDINGS + 1, 1: lambda x, decay: x.size + _EXP_ROUNDINGS + 2}),
    bytes_read=total_bytes,
    bytes_written=lambda x, decay: total_bytes(x),
    flops=lambda x, decay: x.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
