"""exp_trace: one step of an exponential trace, ``out[i] = trace[i] * exp(-tau_inv) + spikes[i]``."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import CudaKernel, Gradient, Operator, Sizes, Truth, WarpKernel, bounded, total_bytes, vectors, wide
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import aligned, kernel, neighbour_tile, neighbour_tiles, neighbours, store_neighbours
from suites.backends.warp import TILE, per_tile, scalar, wp

_EXP_ROUNDINGS = 4
"""The error of the exponential functions of XLA and libm: two units in the last place, which are four roundings."""


@numba.njit
def exp_trace(trace, spikes, tau_inv, out):
    decay = trace.dtype.type(math.exp(-tau_inv[0]))
    for i in range(out.size):
        out[i] = trace[i] * decay + spikes[i]


@numba.njit(parallel=True)
def exp_trace_parallel(trace, spikes, tau_inv, out):
    if out.size < ONE_THREAD_BELOW:
        exp_trace(trace, spikes, tau_inv, out)
    else:
        decay = trace.dtype.type(math.exp(-tau_inv[0]))
        for i in numba.prange(out.size):
            out[i] = trace[i] * decay + spikes[i]


@kernel
def exp_trace_cuda(trace, spikes, tau_inv, out):
    decay = math.exp(-tau_inv[0])
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(trace) and aligned(spikes) and aligned(out):
        a, b = neighbours(trace, i), neighbours(spikes, i)
        store_neighbours(out, i, (a[0] * decay + b[0], a[1] * decay + b[1], a[2] * decay + b[2], a[3] * decay + b[3]))
    else:
        while i < stop:
            out[i] = trace[i] * decay + spikes[i]
            i += np.uint64(1)


@functools.cache
def exp_trace_warp(dtype):
    """The launch of a block for each tile: the CPU then computes one exponential function for many elements as well."""
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def exp_trace(trace: vector, spikes: vector, tau_inv: vector, out: vector):
        first = wp.tid() * TILE
        decayed = wp.tile_load(trace, shape=TILE, offset=first) * wp.exp(-tau_inv[0])
        wp.tile_store(out, decayed + wp.tile_load(spikes, shape=TILE, offset=first), offset=first)

    return exp_trace


def _truth(trace, spikes, tau_inv):
    with np.errstate(invalid="ignore", over="ignore"):
        decayed = wide(trace) * np.exp(-wide(tau_inv))
        value = decayed + wide(spikes)
        condition = np.abs(decayed) + np.abs(wide(spikes))
    return Truth((bounded(value, trace.dtype, condition=condition, terms=_EXP_ROUNDINGS + 2, flushed=3),))


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    trace = random.uniform(0, 2, size).astype(dtype)
    spikes = (random.random(size) < 0.05).astype(dtype)
    return trace, spikes, np.full(1, 1 / 20, dtype)


def _edges(dtype):
    tau_inv = np.full(1, 1 / 20, dtype)
    cases = {name: (vector, vector[::-1].copy(), tau_inv) for name, vector in vectors(dtype).items()}
    ones = np.ones(3, dtype)
    return cases | {
        "no_decay": (ones, ones, np.zeros(1, dtype)),
        "instant_decay": (ones, ones, np.full(1, np.inf, dtype)),
        "nan_decay": (ones, ones, np.full(1, np.nan, dtype)),
    }


OPERATOR = Operator(
    name="exp_trace",
    version=1,
    outputs=lambda trace, spikes, tau_inv: [jax.ShapeDtypeStruct(trace.shape, trace.dtype)],
    reference=lambda trace, spikes, tau_inv: [trace * jnp.exp(-tau_inv[0]) + spikes],
    truth=_truth,
    kernels={
        "numba": exp_trace,
        "numba_parallel": exp_trace_parallel,
        "numba_cuda": CudaKernel(exp_trace_cuda, neighbour_tiles),
        "warp": WarpKernel(exp_trace_warp, per_tile),
        "cuda_raw": cuda_raw.elementwise(
            "out[i] = trace[i] * decay + spikes[i];",
            ("trace", "spikes", "tau_inv"),
            constants="const T decay = exp(-tau_inv[0]);",
        ),
        "pallas": pallas.elementwise(
            lambda trace, spikes, tau_inv: [trace * jnp.exp(-tau_inv) + spikes], long_inputs=2
        ),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    gradient=Gradient({0: _EXP_ROUNDINGS + 1, 1: 0, 2: lambda trace, spikes, tau_inv: trace.size + _EXP_ROUNDINGS + 2}),
    bytes_read=total_bytes,
    bytes_written=lambda trace, spikes, tau_inv: total_bytes(trace),
    flops=lambda trace, spikes, tau_inv: 2 * trace.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
