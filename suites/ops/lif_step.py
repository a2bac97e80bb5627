"""lif_step: one Euler step of leaky integrate-and-fire neurons, with threshold and reset.

``v = V + dt * (I - (V - V_rest) / tau)``. If ``v >= V_th``, the neuron spikes and v becomes ``V_rest``.
"""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import CudaKernel, Expected, Operator, Truth, WarpKernel, bounded, exact, total_bytes, vectors, wide
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import (
    aligned,
    device,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    store_neighbours,
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
def lif_step(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    threshold, rest, leak, step = V_th[0], V_rest[0], tau_inv[0], dt[0]
    for i in range(V.size):
        v = V[i] + step * (-(V[i] - rest) * leak + current[i])
        spikes[i] = v >= threshold
        V_out[i] = rest if v >= threshold else v


@numba.njit(parallel=True)
def lif_step_parallel(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    if V.size < ONE_THREAD_BELOW:
        lif_step(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes)
    else:
        threshold, rest, leak, step = V_th[0], V_rest[0], tau_inv[0], dt[0]
        for i in numba.prange(V.size):
            v = V[i] + step * (-(V[i] - rest) * leak + current[i])
            spikes[i] = v >= threshold
            V_out[i] = rest if v >= threshold else v


@device
def integrated(v, current, leak, rest, step):
    return v + step * (-(v - rest) * leak + current)


@kernel
def lif_step_cuda(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    threshold, rest, leak, step = V_th[0], V_rest[0], tau_inv[0], dt[0]
    i, stop, full = neighbour_tile(V.size)
    if full and aligned(V) and aligned(current) and aligned(spikes) and aligned(V_out):
        v, j = neighbours(V, i), neighbours(current, i)
        a = integrated(v[0], j[0], leak, rest, step)
        b = integrated(v[1], j[1], leak, rest, step)
        c = integrated(v[2], j[2], leak, rest, step)
        d = integrated(v[3], j[3], leak, rest, step)
        fires = a >= threshold, b >= threshold, c >= threshold, d >= threshold
        store_neighbours(spikes, i, fires)
        reset = rest if fires[0] else a, rest if fires[1] else b, rest if fires[2] else c, rest if fires[3] else d
        store_neighbours(V_out, i, reset)
    else:
        while i < stop:
            a = integrated(V[i], current[i], leak, rest, step)
            spikes[i] = a >= threshold
            V_out[i] = rest if a >= threshold else a
            i += np.uint64(1)


@functools.cache
def lif_step_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique", enable_backward=False)
    def lif_step(
        V: vector,
        current: vector,
        tau_inv: vector,
        V_th: vector,
        V_rest: vector,
        dt: vector,
        V_out: vector,
        spikes: wp.array(dtype=wp.int32),
    ):
        i = wp.tid()
        if i >= 0:  # always true: the CPU need not check for each array whether the index counts from the end
            v = V[i] + dt[0] * (-(V[i] - V_rest[0]) * tau_inv[0] + current[i])
            fires = v >= V_th[0]
            V_out[i] = wp.where(fires, V_rest[0], v)
            spikes[i] = wp.where(fires, 1, 0)

    return lif_step


@functools.cache
def lif_step_tiles(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def integrated_by(v: element, current: element, leak: element, rest: element, step: element):
        return v + step * (-(v - rest) * leak + current)

    four, load, aligned = vectors_of(dtype).kind, vectors_of(dtype).load_within, vectors_of(dtype).aligned
    aligned_spikes, (reached, after_reset, store_after) = vectors_of("int32").aligned, threshold_of(dtype)

    @kernel_with(integrated_by, reached, after_reset, enable_backward=False)
    def lif_step(
        V: vector,
        current: vector,
        tau_inv: vector,
        V_th: vector,
        V_rest: vector,
        dt: vector,
        V_out: vector,
        spikes: wp.array(dtype=wp.int32),
    ):
        first = block_of(wp.tid()) * STREAM_TILE
        if on_gpu():
            i = first + thread_of_block() * FOUR
            leak, threshold, rest, step = tau_inv[0], V_th[0], V_rest[0], dt[0]
            alike = aligned(V) and aligned(current) and aligned(V_out) and aligned_spikes(spikes)
            in_vectors = alike and i + FOUR <= V.shape[0]
            u, w = load(V, i, in_vectors), load(current, i, in_vectors)
            after = four(
                integrated_by(u[0], w[0], leak, rest, step),
                integrated_by(u[1], w[1], leak, rest, step),
                integrated_by(u[2], w[2], leak, rest, step),
                integrated_by(u[3], w[3], leak, rest, step),
            )
            store_after(spikes, V_out, i, in_vectors, after, threshold, rest)
        elif first + STREAM_TILE <= V.shape[0]:
            potential = wp.tile_load(V, shape=STREAM_TILE, offset=first, bounds_check=False)
            drive = wp.tile_load(current, shape=STREAM_TILE, offset=first, bounds_check=False)
            v = wp.tile_map(integrated_by, potential, drive, tau_inv[0], V_rest[0], dt[0])
            wp.tile_store(V_out, wp.tile_map(after_reset, v, V_th[0], V_rest[0]), offset=first, bounds_check=False)
            wp.tile_store(spikes, wp.tile_map(reached, v, V_th[0]), offset=first, bounds_check=False)
        else:
            last_potential = wp.tile_load(V, shape=STREAM_TILE, offset=first)
            last_drive = wp.tile_load(current, shape=STREAM_TILE, offset=first)
            last_v = wp.tile_map(integrated_by, last_potential, last_drive, tau_inv[0], V_rest[0], dt[0])
            wp.tile_store(V_out, wp.tile_map(after_reset, last_v, V_th[0], V_rest[0]), offset=first)
            wp.tile_store(spikes, wp.tile_map(reached, last_v, V_th[0]), offset=first)

    return lif_step


def _step(V, current, tau_inv, V_th, V_rest, dt):
    v = V + dt * (-(V - V_rest) * tau_inv + current)
    return jnp.where(v >= V_th, V_rest, v), v >= V_th


def _reference(V, current, tau_inv, V_th, V_rest, dt):
    v = V + dt[0] * (-(V - V_rest[0]) * tau_inv[0] + current)
    spikes = v >= V_th[0]
    return [jnp.where(spikes, V_rest[0], v), spikes.astype(jnp.int32)]


def _truth(V, current, tau_inv, V_th, V_rest, dt):
    """v has five roundings in a row. If it is within their bound of the threshold, both branches are right."""
    dtype = V.dtype
    V, current, tau_inv, V_th, V_rest, dt = map(wide, (V, current, tau_inv, V_th, V_rest, dt))
    with np.errstate(invalid="ignore", over="ignore"):
        v = V + dt * (-(V - V_rest) * tau_inv + current)
        condition = np.abs(V) + np.abs(dt) * ((np.abs(V) + np.abs(V_rest)) * np.abs(tau_inv) + np.abs(current))
        integrated = bounded(v, dtype, condition=condition, terms=5, flushed=6)
        fires = v >= V_th
        undecided = np.abs(v - V_th) <= integrated.margin

    def branch(fires):
        reset = np.broadcast_to(V_rest, v.shape)
        copied = bounded(reset, dtype)
        assert copied.margin is not None
        assert integrated.margin is not None
        # The reset value is a copy, so only flushing may change it.
        margin = np.where(fires, copied.margin, integrated.margin)
        return Expected(np.where(fires, reset, v), dtype, margin), exact(fires.astype(np.int32))

    return Truth(branch(fires), branch(~fires), undecided)


def _constants(dtype, threshold=-55.0):
    return tuple(np.full(1, value, dtype) for value in (1 / 20, threshold, -70.0, 0.1))


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return (
        random.uniform(-75, -54, size).astype(dtype),
        random.uniform(0, 5, size).astype(dtype),
        *_constants(dtype),
    )


def _edges(dtype):
    cases = {name: (vector, vector[::-1].copy(), *_constants(dtype)) for name, vector in vectors(dtype).items()}
    near = np.nextafter(np.full(64, -55, dtype), np.tile(np.array([-60, -50], dtype), 32))
    cases["around_threshold"] = (near, ((near + 70) / 20).astype(dtype), *_constants(dtype))
    cases["all_spike"] = (np.zeros(33, dtype), np.ones(33, dtype), *_constants(dtype))
    cases["nan_threshold"] = (np.zeros(3, dtype), np.ones(3, dtype), *_constants(dtype, np.nan))
    return cases


OPERATOR = Operator(
    name="lif_step",
    version=1,
    outputs=lambda V, *_: [jax.ShapeDtypeStruct(V.shape, V.dtype), jax.ShapeDtypeStruct(V.shape, np.int32)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": lif_step,
        "numba_parallel": lif_step_parallel,
        "numba_cuda": CudaKernel(lif_step_cuda, neighbour_tiles),
        "warp": WarpKernel(lif_step_warp),
        "warp_tile": WarpKernel(lif_step_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise(
            "const T v = V[i] + step * (-(V[i] - rest) * leak + current[i]);"
            "spikes[i] = v >= threshold;"
            "V_out[i] = v >= threshold ? rest : v;",
            ("V", "current", "tau_inv", "V_th", "V_rest", "dt"),
            ("T* V_out", "int* spikes"),
            "const T leak = tau_inv[0], threshold = V_th[0], rest = V_rest[0], step = dt[0];",
        ),
        "pallas": pallas.elementwise(_step, long_inputs=2),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    bytes_read=total_bytes,
    bytes_written=lambda V, *_: total_bytes(V) + 4 * V.size,
    gradient=None,  # it is undefined at the threshold, where users put a surrogate
    flops=lambda V, *_: 6 * V.size,
    elementwise=True,
)
