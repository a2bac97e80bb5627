"""The kernel of attention in Warp."""

import functools

import bridge
from suites.kernels.warp.blocks import blocks, kernel_with, real, scalar, wp

THREADS = 32
"""Threads that share the features of a head."""


@functools.cache
def attention_warp(dtype, width):
    """A block for each query of a head of ``width`` features, which takes the keys one after the other."""
    element, wider = scalar(dtype), real(dtype)
    matrix, scale = wp.array2d(dtype=element), wider(width**-0.5)

    @wp.func
    def widened(value: element):
        return wider(value)

    @wp.func
    def product(a: wider, b: element):
        return a * wider(b)

    @wp.func
    def rounded(value: wider):
        return element(value)

    @kernel_with(widened, product, rounded, enable_backward=False)
    def attention(q: matrix, k: matrix, v: matrix, heads: int, few: int, out: matrix):
        row = wp.tid()
        shared = row % heads * few // heads
        query = wp.tile_map(widened, wp.tile_load(q[row], shape=width)) * scale
        mean = wp.tile_zeros(shape=width, dtype=wider)
        largest, total = wider(-wp.inf), wider(0)
        for j in range(shared, row // heads * few + shared + 1, few):
            score = wp.tile_sum(wp.tile_map(product, query, wp.tile_load(k[j], shape=width)))[0]
            now = wp.max(largest, score)
            fade, weight = wp.exp(largest - now), wp.exp(score - now)
            mean = mean * fade + wp.tile_map(widened, wp.tile_load(v[j], shape=width)) * weight
            total = total * fade + weight
            largest = now
        wp.tile_store(out[row], wp.tile_map(rounded, mean * (wider(1) / total)))

    return attention


def attention_of_rows(inputs, outs):
    """Passes positions and heads as rows of one matrix; k and v may have fewer heads."""
    (length, heads, width), few = outs[0].shape, inputs[1].shape[1]
    rows, shape = length * heads, (length * heads, width)
    call = bridge.jax_kernel(attention_warp(str(outs[0].dtype), width), **blocks(rows, THREADS), output_dims=shape)
    return lambda *arrays: call(*(each.reshape(-1, width) for each in arrays), heads, few)[0].reshape(outs[0].shape)
