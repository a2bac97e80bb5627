"""spike_reset: neurons whose potential has reached the threshold spike and are reset, by two kernels on a GPU."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import (
    CudaCallable,
    CudaKernel,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    exact,
    total_bytes,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import (
    THREADS,
    aligned,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    store_neighbours,
    tile_count,
)
from suites.backends.warp import (
    FOUR,
    STREAM_TILE,
    block_of,
    kernel_with,
    on_gpu,
    per_stream_tile,
    scalar,
    thread_of_block,
    vectors_of,
    wp,
)
from suites.backends.warp_thresholds import threshold_of


@numba.njit
def spike_reset(V, V_th, V_rest, spikes, V_out):
    threshold, rest = V_th[0], V_rest[0]
    for i in range(V.size):
        v = V[i]
        spikes[i] = v >= threshold
        V_out[i] = rest if v >= threshold else v


@numba.njit(parallel=True)
def spike_reset_parallel(V, V_th, V_rest, spikes, V_out):
    if V.size < ONE_THREAD_BELOW:
        spike_reset(V, V_th, V_rest, spikes, V_out)
    else:
        threshold, rest = V_th[0], V_rest[0]
        for i in numba.prange(V.size):
            v = V[i]
            spikes[i] = v >= threshold
            V_out[i] = rest if v >= threshold else v


@kernel
def detect(V, V_th, spikes):
    threshold = V_th[0]
    i, stop, full = neighbour_tile(V.size)
    if full and aligned(V) and aligned(spikes):
        a, b, c, d = neighbours(V, i)
        store_neighbours(spikes, i, (a >= threshold, b >= threshold, c >= threshold, d >= threshold))
    else:
        while i < stop:
            spikes[i] = V[i] >= threshold
            i += np.uint64(1)


@kernel
def reset(V, spikes, V_rest, V_out):
    rest = V_rest[0]
    i, stop, full = neighbour_tile(V.size)
    if full and aligned(V) and aligned(spikes) and aligned(V_out):
        a, b, c, d = neighbours(V, i)
        fired = neighbours(spikes, i)
        store_neighbours(
            V_out,
            i,
            (rest if fired[0] else a, rest if fired[1] else b, rest if fired[2] else c, rest if fired[3] else d),
        )
    else:
        while i < stop:
            V_out[i] = rest if spikes[i] else V[i]
            i += np.uint64(1)


@kernel
def spike_reset_in_one_pass(V, V_th, V_rest, spikes, V_out):
    threshold, rest = V_th[0], V_rest[0]
    i, stop, full = neighbour_tile(V.size)
    if full and aligned(V) and aligned(spikes) and aligned(V_out):
        a, b, c, d = neighbours(V, i)
        fires = a >= threshold, b >= threshold, c >= threshold, d >= threshold
        store_neighbours(spikes, i, fires)
        after = rest if fires[0] else a, rest if fires[1] else b, rest if fires[2] else c, rest if fires[3] else d
        store_neighbours(V_out, i, after)
    else:
        while i < stop:
            spikes[i] = V[i] >= threshold
            V_out[i] = rest if V[i] >= threshold else V[i]
            i += np.uint64(1)


def spike_reset_cuda(V, V_th, V_rest, spikes, V_out, stream):
    if V.size:
        blocks = tile_count(V.size)
        detect[blocks, THREADS, stream](V, V_th, spikes)
        reset[blocks, THREADS, stream](V, spikes, V_rest, V_out)


@functools.cache
def spike_reset_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def spike_reset(V: vector, V_th: vector, V_rest: vector, spikes: wp.array(dtype=wp.int32), V_out: vector):
        i = wp.tid()
        fires = V[i] >= V_th[0]
        V_out[i] = wp.where(fires, V_rest[0], V[i])
        spikes[i] = wp.where(fires, 1, 0)

    return spike_reset


@functools.cache
def spike_reset_tiles(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    load, aligned = vectors_of(dtype).load_within, vectors_of(dtype).aligned
    aligned_spikes, (reached, after_reset, store_after) = vectors_of("int32").aligned, threshold_of(dtype)

    @kernel_with(reached, after_reset, enable_backward=False)
    def spike_reset(V: vector, V_th: vector, V_rest: vector, spikes: wp.array(dtype=wp.int32), V_out: vector):
        first = block_of(wp.tid()) * STREAM_TILE
        if on_gpu():
            i = first + thread_of_block() * FOUR
            in_vectors = i + FOUR <= V.shape[0] and aligned(V) and aligned_spikes(spikes) and aligned(V_out)
            store_after(spikes, V_out, i, in_vectors, load(V, i, in_vectors), V_th[0], V_rest[0])
        elif first + STREAM_TILE <= V.shape[0]:
            v = wp.tile_load(V, shape=STREAM_TILE, offset=first, bounds_check=False)
            wp.tile_store(spikes, wp.tile_map(reached, v, V_th[0]), offset=first, bounds_check=False)
            wp.tile_store(V_out, wp.tile_map(after_reset, v, V_th[0], V_rest[0]), offset=first, bounds_check=False)
        else:
            last_v = wp.tile_load(V, shape=STREAM_TILE, offset=first)
            wp.tile_store(spikes, wp.tile_map(reached, last_v, V_th[0]), offset=first)
            wp.tile_store(V_out, wp.tile_map(after_reset, last_v, V_th[0], V_rest[0]), offset=first)

    return spike_reset


def _reference(V, V_th, V_rest):
    spikes = V_th[0] <= V
    return [spikes.astype(jnp.int32), jnp.where(spikes, V_rest[0], V)]


def _truth(V, V_th, V_rest):
    """Nothing is rounded. A comparison of numbers that may be flushed to zero may have either result."""
    tiny = float(np.finfo(V.dtype).tiny)
    fires = V_th <= V
    zeros = np.where(np.abs(wide(V)) < tiny, 0, wide(V)), np.where(np.abs(wide(V_th)) < tiny, 0, wide(V_th))
    flushed = zeros[0] >= zeros[1]

    def branch(fires):
        potential = bounded(np.where(fires, wide(V_rest), wide(V)), V.dtype)
        return exact(fires.astype(np.int32)), potential

    return Truth(branch(fires), branch(flushed), fires != flushed)


def _constants(dtype, threshold=-55.0):
    return np.full(1, threshold, dtype), np.full(1, -70.0, dtype)


def _sample(dtype, size, seed):
    return np.random.default_rng(seed).uniform(-75, -50, size).astype(dtype), *_constants(dtype)


def _edges(dtype):
    cases = {name: (vector, *_constants(dtype, 0)) for name, vector in vectors(dtype).items()}
    threshold = np.array(-55, dtype)
    below, above = (np.nextafter(threshold, np.array(side, dtype)) for side in (-60, -50))
    cases["around_threshold"] = (np.tile(np.array([below, threshold, above], dtype), 500), *_constants(dtype))
    cases["all_spike"] = (np.zeros(33, dtype), *_constants(dtype))
    cases["nan_threshold"] = (np.zeros(3, dtype), *_constants(dtype, np.nan))
    return cases


OPERATOR = Operator(
    name="spike_reset",
    version=1,
    outputs=lambda V, *_: [jax.ShapeDtypeStruct(V.shape, np.int32), jax.ShapeDtypeStruct(V.shape, V.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": spike_reset,
        "numba_parallel": spike_reset_parallel,
        "numba_cuda": CudaKernel(spike_reset_in_one_pass, neighbour_tiles),
        "numba_cuda_callable": CudaCallable(spike_reset_cuda),
        "numba_cuda_replay": CudaCallable(spike_reset_cuda),
        "warp": WarpKernel(spike_reset_warp),
        "warp_tile": WarpKernel(spike_reset_tiles, per_stream_tile),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    bytes_read=total_bytes,
    bytes_written=lambda V, *_: total_bytes(V) + 4 * V.size,
    gradient=None,  # it is undefined at the threshold, where users put a surrogate
    flops=lambda V, *_: V.size,
    elementwise=True,
    remarks="two passes by design in numba_cuda_callable and numba_cuda_replay: they show kernels that share an array; "
    "warp, warp_tile and numba_cuda make one",
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
