"""Kernels of split_sign in Warp."""

import functools

from suites.kernels.warp.blocks import STREAM_TILE, kernel_with, scalar, wp


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
