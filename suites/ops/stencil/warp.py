"""Kernels of stencil in Warp."""

import functools

import bridge
from suites.kernels.warp.blocks import TILE, blocks, real, scalar, tile_count, wp


@functools.cache
def stencil_warp(dtype):
    element, wider = scalar(dtype), real(dtype)

    @wp.kernel(module="unique")
    def stencil(u: wp.array2d(dtype=element), rate: wp.array(dtype=element), out: wp.array2d(dtype=element)):
        i, j = wp.tid()
        center = u[i, j]
        if i == 0 or j == 0 or i == u.shape[0] - 1 or j == u.shape[1] - 1:
            out[i, j] = center
        else:
            across, along = wider(u[i - 1, j]) + wider(u[i + 1, j]), wider(u[i, j - 1]) + wider(u[i, j + 1])
            heat = across + along - wider(4.0) * wider(center)
            out[i, j] = element(wider(center) + wider(rate[0]) * heat)

    return stencil


@functools.cache
def stencil_tile(dtype):
    """A block for each tile of a row's inner cells. The first block also copies the ends of the row."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def stencil(u: vector, rate: vector, rows: int, columns: int, out: vector):
        tiles = (columns + TILE - 1) // TILE
        i = wp.tid() // tiles
        place = (wp.tid() - i * tiles) * TILE
        first, last = i * columns, (i + 1) * columns - 1
        if i == 0 or i == rows - 1 or columns < 3:
            row = wp.tile_load(u[first : last + 1], shape=TILE, offset=place)
            wp.tile_store(out[first : last + 1], row, offset=place)
        else:
            center = wp.tile_load(u[first + 1 : last], shape=TILE, offset=place)
            above = wp.tile_load(u[first - columns + 1 : last - columns], shape=TILE, offset=place)
            below = wp.tile_load(u[first + columns + 1 : last + columns], shape=TILE, offset=place)
            left = wp.tile_load(u[first : last - 1], shape=TILE, offset=place)
            right = wp.tile_load(u[first + 2 : last + 1], shape=TILE, offset=place)
            heat = (above + below) + (left + right) - center * element(4.0)
            wp.tile_store(out[first + 1 : last], center + heat * rate[0], offset=place)
            if place == 0:
                wp.tile_store(out, wp.tile_load(u, shape=1, offset=first), offset=first)
                wp.tile_store(out, wp.tile_load(u, shape=1, offset=last), offset=last)

    return stencil


def stencil_in_tiles(inputs, outs):
    """Passes the grid as a vector: Warp's CPU code is slow with the strides of matrices."""
    rows, columns = outs[0].shape
    step = bridge.jax_kernel(
        stencil_tile(str(outs[0].dtype)), **blocks(rows * tile_count(columns)), output_dims=rows * columns
    )
    return lambda u, rate: [step(u.reshape(-1), rate, rows, columns)[0].reshape(u.shape)]
