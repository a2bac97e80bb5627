"""The kernel of matmul in Warp."""

import functools

from suites.kernels.warp.blocks import blocks, kernel_with, real, scalar, wp
from suites.ops.matmul.numba_cpu import DEPTHS

WIDTH = 64
"""Elements of a row of out that a block computes, a thread each on a GPU."""


@functools.cache
def matmul_warp(dtype):
    """A block for each tile of a row of out, which stays in registers while rows of B are added to it."""
    element, wider = scalar(dtype), real(dtype)
    matrix = wp.array2d(dtype=element)

    @wp.func
    def widened(value: element):
        return wider(value)

    @wp.func
    def rounded(value: wider):
        return element(value)

    @kernel_with(widened, rounded, enable_backward=False)
    def matmul(A: matrix, B: matrix, out: matrix):
        tiles = (out.shape[1] + WIDTH - 1) // WIDTH
        row = wp.tid() // tiles
        place = (wp.tid() - row * tiles) * WIDTH
        total = wp.tile_zeros(shape=WIDTH, dtype=wider)
        for k in range(A.shape[1]):
            total += wp.tile_map(widened, wp.tile_load(B[k], shape=WIDTH, offset=place)) * wider(A[row, k])
        wp.tile_store(out[row], wp.tile_map(rounded, total), offset=place)

    return matmul


def launch(inputs, outs):
    if inputs[0].shape[1] != inputs[1].shape[0]:
        raise ValueError(DEPTHS)
    rows, columns = outs[0].shape
    return {**blocks(rows * -(-columns // WIDTH), WIDTH), "output_dims": outs[0].shape}
