"""Kernels of linear_recurrence in Warp."""

import functools
import math

import bridge
from suites.kernels.warp.blocks import TILE_THREADS, blocks, scalar, wp

CHANNELS = TILE_THREADS
"""Channels that a Warp block works on, as one tile."""


# Warp's adjoints do not know the values that a loop of run-time length carries from step to step. So these kernels read
# the step before from the array that they have written it to. Each thread reads only its own results.


@functools.cache
def combine_warp(dtype):
    """Combines the steps of a part up to each step, into a decay and a drive for the state before the part."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def combine(a: vector, b: vector, each: int, steps: int, channels: int, decays: vector, drives: vector):
        tiles = (channels + CHANNELS - 1) // CHANNELS
        part = wp.tid() // tiles
        c = (wp.tid() - part * tiles) * CHANNELS
        row, end = part * each * channels, wp.min((part + 1) * each, steps) * channels
        wp.tile_store(decays[row : row + channels], wp.tile_load(a[row : row + channels], CHANNELS, c), c)
        wp.tile_store(drives[row : row + channels], wp.tile_load(b[row : row + channels], CHANNELS, c), c)
        for start in range(row + channels, end, channels):
            stop = start + channels
            decay = wp.tile_load(a[start:stop], CHANNELS, c)
            combined = wp.tile_map(wp.mul, decay, wp.tile_load(decays[start - channels : start], CHANNELS, c))
            driven = wp.tile_map(wp.mul, decay, wp.tile_load(drives[start - channels : start], CHANNELS, c))
            wp.tile_store(decays[start:stop], combined, c)
            wp.tile_store(drives[start:stop], driven + wp.tile_load(b[start:stop], CHANNELS, c), c)

    return combine


@functools.cache
def follow_warp(dtype):
    """Computes the state before each part."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def follow(decays: vector, drives: vector, initial: vector, each: int, parts: int, channels: int, states: vector):
        c = wp.tid() * CHANNELS
        wp.tile_store(states[0:channels], wp.tile_load(initial, CHANNELS, c), c)
        for part in range(1, parts):
            state, stop = (part - 1) * channels, part * each * channels
            before = wp.tile_load(states[state : state + channels], CHANNELS, c)
            decayed = wp.tile_map(wp.mul, wp.tile_load(decays[stop - channels : stop], CHANNELS, c), before)
            after = decayed + wp.tile_load(drives[stop - channels : stop], CHANNELS, c)
            wp.tile_store(states[state + channels : state + 2 * channels], after, c)

    return follow


@functools.cache
def resume_warp(dtype):
    """Computes the states of all steps from the states before the parts."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def resume(decays: vector, drives: vector, states: vector, each: int, steps: int, channels: int, out: vector):
        tiles = (channels + CHANNELS - 1) // CHANNELS
        part = wp.tid() // tiles
        c = (wp.tid() - part * tiles) * CHANNELS
        row, end = part * each * channels, wp.min((part + 1) * each, steps) * channels
        state = wp.tile_load(states[part * channels : (part + 1) * channels], CHANNELS, c)
        for start in range(row, end, channels):
            decayed = wp.tile_map(wp.mul, wp.tile_load(decays[start : start + channels], CHANNELS, c), state)
            after = decayed + wp.tile_load(drives[start : start + channels], CHANNELS, c)
            wp.tile_store(out[start : start + channels], after, c)

    return resume


def linear_recurrence_warp(inputs, outs):
    """Uses as many parts as steps per part, so that the loop over parts is as long as the loop over steps.

    Arrays are passed as vectors: Warp's CPU code is slow with the strides of matrices.
    """
    a, b, initial = inputs
    if a.shape != b.shape or a.shape[1:] != initial.shape:
        raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
    dtype, (steps, channels) = str(outs[0].dtype), outs[0].shape
    each = max(1, math.isqrt(steps))
    parts, tiles = -(-steps // each), -(-channels // CHANNELS)
    every = {**blocks(parts * tiles), "output_dims": steps * channels, "enable_backward": True}
    to_states = {**blocks(tiles if steps else 0), "output_dims": parts * channels, "enable_backward": True}
    combine = bridge.jax_kernel(combine_warp(dtype), num_outputs=2, **every)
    follow = bridge.jax_kernel(follow_warp(dtype), **to_states)
    resume = bridge.jax_kernel(resume_warp(dtype), **every)

    def linear_recurrence(a, b, initial):
        decays, drives = combine(a.reshape(-1), b.reshape(-1), each, steps, channels)
        (states,) = follow(decays, drives, initial, each, parts, channels)
        (h,) = resume(decays, drives, states, each, steps, channels)
        return [h.reshape(b.shape)]

    return linear_recurrence
