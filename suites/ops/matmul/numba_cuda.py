"""The kernel of matmul in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, wide_dtype, wide_number, widened

SIDE = 32
"""Rows and columns of the tile of out that a block computes, and of the tiles of A and B in shared memory."""

HEIGHT = 8
"""Rows of threads. Each thread computes four elements of a column, and loads four of each tile."""


@kernel
def matmul_cuda(A, B, out):
    a_tile = cuda.shared.array((SIDE, SIDE), wide_dtype(out))
    b_tile = cuda.shared.array((SIDE, SIDE), wide_dtype(out))
    rows, depth, columns = np.uint64(A.shape[0]), np.uint64(A.shape[1]), np.uint64(B.shape[1])
    x, y = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y)
    y1, y2, y3 = y + np.uint64(HEIGHT), y + np.uint64(2 * HEIGHT), y + np.uint64(3 * HEIGHT)
    first_row, column = np.uint64(cuda.blockIdx.y) * np.uint64(SIDE), np.uint64(cuda.blockIdx.x) * np.uint64(SIDE) + x
    a = b = c = d = nothing = wide_number(out, 0)
    first = np.uint64(0)
    while first < depth:  # the same for all threads of a block: they synchronise in the loop
        for step in range(0, SIDE, HEIGHT):
            place = y + np.uint64(step)
            row, k = first_row + place, first + x
            a_tile[place, x] = widened(A[row, k]) if row < rows and k < depth else nothing
            k = first + place
            b_tile[place, x] = widened(B[k, column]) if k < depth and column < columns else nothing
        cuda.syncthreads()
        for step in range(SIDE):
            here = b_tile[step, x]
            a += a_tile[y, step] * here
            b += a_tile[y1, step] * here
            c += a_tile[y2, step] * here
            d += a_tile[y3, step] * here
        cuda.syncthreads()
        first += np.uint64(SIDE)
    if column < columns:
        if first_row + y < rows:
            out[first_row + y, column] = a
        if first_row + y1 < rows:
            out[first_row + y1, column] = b
        if first_row + y2 < rows:
            out[first_row + y2, column] = c
        if first_row + y3 < rows:
            out[first_row + y3, column] = d


def launch(inputs, outs):
    rows, columns = outs[0].shape
    return {"grid": (-(-columns // SIDE), -(-rows // SIDE)), "block": (SIDE, HEIGHT)}
