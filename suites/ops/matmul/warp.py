"""The kernel of matmul in Warp."""

import functools

from suites.backends.warp import blocks, scalar, wp
from suites.ops.matmul.numba_cpu import DEPTHS

WIDTH = 64
"""Elements of a row of out that a block computes, a thread each on a GPU."""


@functools.cache
def matmul_warp(dtype):
    """A block for each tile of a row of out, which stays in registers while rows of B are added to it."""
    element = scalar(dtype)
    matrix = wp.array2d(dtype=element)

    @wp.kernel(module="unique", enable_backward=False)
    def matmul(A: matrix, B: matrix, out: matrix):
        tiles = (out.shape[1] + WIDTH - 1) // WIDTH
        row = wp.tid() // tiles
        place = (wp.tid() - row * tiles) * WIDTH
        total = wp.tile_zeros(shape=WIDTH, dtype=element)
        for k in range(A.shape[1]):
            total += wp.tile_load(B[k], shape=WIDTH, offset=place) * A[row, k]
        wp.tile_store(out[row], total, offset=place)

    return matmul


def launch(inputs, outs):
    if inputs[0].shape[1] != inputs[1].shape[0]:
        raise ValueError(DEPTHS)
    rows, columns = outs[0].shape
    return {**blocks(rows * -(-columns // WIDTH), WIDTH), "output_dims": outs[0].shape}
