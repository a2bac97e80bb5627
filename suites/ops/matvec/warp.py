"""Kernels of matvec in Warp."""

import functools

import bridge
from suites.kernels.blocked_sums import BLOCK
from suites.kernels.warp.blocks import SIDE, TILE, blocks, scalar, wp
from suites.kernels.warp.rows import PART, rows_of, threads_for
from suites.kernels.warp.vectors import FOUR, block_of, on_gpu, thread_of_block, vectors_of


@functools.cache
def matvec_warp(dtype, rows_of=rows_of):
    """A block for each row. Its threads take turns at the columns, and each adds up sums of BLOCK products.

    On a GPU a thread has PART chains of additions, and as many loads of vectors of A and of x under way at once.
    """
    element = scalar(dtype)
    vector = wp.array(dtype=element)
    aligned, rows = vectors_of(dtype).aligned, rows_of(dtype)
    kind, load, total_of, total_of_block = rows.kind, rows.load, rows.total, rows.total_of_block

    @wp.func
    def part(elements: vector, x: vector, lane: int):
        total = element(0)
        for start in range(lane, x.shape[0], BLOCK * wp.block_dim()):
            partial = element(0)
            for j in range(start, wp.min(start + BLOCK * wp.block_dim(), x.shape[0]), wp.block_dim()):
                partial += elements[j] * x[j]
            total += partial
        return total

    @wp.func
    def part_in_vectors(elements: vector, x: vector):
        total = kind()
        for first in range(0, x.shape[0], PART * wp.block_dim()):
            total += wp.cw_mul(load(elements, first), load(x, first))
        return total_of(total)

    @wp.kernel(module="unique")
    def matvec(A: wp.array2d(dtype=element), x: vector, out: vector):
        row, lane = block_of(wp.tid()), thread_of_block()
        elements = A[row]
        if on_gpu() and x.shape[0] % FOUR == 0 and aligned(elements) and aligned(x):
            total = total_of_block(part_in_vectors(elements, x))
            if lane == 0:
                out[row] = total
        else:
            wp.tile_store(out, wp.tile_sum(wp.tile(part(elements, x, lane))), offset=row)

    return matvec


def launch(inputs, outs):
    _check_columns(*inputs)
    rows, columns = inputs[0].shape
    # The checks compare the gradients, which the bridge cannot see to be right.
    return {**blocks(rows, threads_for(columns, outs[0].dtype)), "output_dims": outs[0].shape, "enable_backward": True}


@functools.cache
def matvec_tile(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def matvec(A: vector, x: vector, out: vector):
        row, columns = wp.tid(), x.shape[0]
        elements = A[row * columns : (row + 1) * columns]
        total = wp.tile_zeros(shape=TILE, dtype=element)
        for j in range(0, columns, TILE):
            own, shared = wp.tile_load(elements, shape=TILE, offset=j), wp.tile_load(x, shape=TILE, offset=j)
            total += wp.tile_map(wp.mul, own, shared)
        square = wp.tile_reshape(total * element(1), shape=(SIDE, SIDE))  # as in suites.kernels.warp.blocks.add_up
        wp.tile_store(out, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=row)

    return matvec


def matvec_in_tiles(inputs, outs):
    """Passes A as a vector: Warp's CPU code is slow with the strides of matrices."""
    _check_columns(*inputs)
    rows = outs[0].shape[0]
    kernel = matvec_tile(str(outs[0].dtype))
    product = bridge.jax_kernel(kernel, **blocks(rows), output_dims=rows, enable_backward=True)
    return lambda A, x: product(A.reshape(-1), x)


def _check_columns(A, x):
    if A.shape[1] != x.shape[0]:
        raise ValueError("matvec: A must have as many columns as x has elements")
