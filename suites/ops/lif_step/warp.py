"""Kernels of lif_step in Warp."""

import functools

from suites.kernels.warp.blocks import STREAM_TILE, kernel_with, real, scalar, wp
from suites.kernels.warp.vectors import FOUR, block_of, on_gpu, thread_of_block, vectors_of


@functools.cache
def lif_step_warp(dtype):
    element, wider = scalar(dtype), real(dtype)
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
            before, rest = wider(V[i]), wider(V_rest[0])
            v = before + wider(dt[0]) * (-(before - rest) * wider(tau_inv[0]) + wider(current[i]))
            fires = v >= wider(V_th[0])
            V_out[i] = element(wp.where(fires, rest, v))
            spikes[i] = wp.where(fires, 1, 0)

    return lif_step


@functools.cache
def threshold_of(dtype):
    """Makes the functions ``reached`` and ``after_reset`` of a threshold, and a store of four spikes and potentials."""
    element = scalar(dtype)
    potentials, counts = vectors_of(dtype), vectors_of("int32")
    four, four_spikes = potentials.kind, counts.kind
    store_potentials, store_spikes = potentials.store_within, counts.store_within

    @wp.func
    def reached(v: element, threshold: element):
        return wp.where(v >= threshold, 1, 0)

    @wp.func
    def after_reset(v: element, threshold: element, rest: element):
        return wp.where(v >= threshold, rest, v)

    @wp.func
    def store(
        spikes: wp.array(dtype=wp.int32),
        V_out: wp.array(dtype=element),
        i: int,
        in_vectors: bool,
        v: four,
        threshold: element,
        rest: element,
    ):
        fires = four_spikes(
            reached(v[0], threshold), reached(v[1], threshold), reached(v[2], threshold), reached(v[3], threshold)
        )
        store_spikes(spikes, i, in_vectors, fires)
        after = four(
            after_reset(v[0], threshold, rest),
            after_reset(v[1], threshold, rest),
            after_reset(v[2], threshold, rest),
            after_reset(v[3], threshold, rest),
        )
        store_potentials(V_out, i, in_vectors, after)

    return reached, after_reset, store


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
