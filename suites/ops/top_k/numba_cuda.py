"""The kernel of top_k in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, kernel, wide_number, widened
from suites.kernels.numba_cuda.warps import WARP, shuffle_xor
from suites.ops.top_k.numba_cpu import COLUMNS, K

ROWS = THREADS // WARP
"""Rows of a block: one for each warp."""


@device
def goes_before(a, i, b, j):
    """Whether element a at place i is chosen before b at place j. A place below zero stands for no element."""
    return i >= 0 and (j < 0 or a > b or (a == b and i < j))


@kernel
def top_k_cuda(x, values, indices):
    """A warp has a row. It looks for the largest element K times, each time among those after the one before."""
    rows, columns = np.uint64(x.shape[0]), np.int64(x.shape[1])
    row = np.uint64(cuda.blockIdx.x) * np.uint64(ROWS) + np.uint64(cuda.threadIdx.y)
    source = min(row, rows - np.uint64(1))  # beyond the last row, warps repeat its work and write nothing
    last, place_of_last = wide_number(x, np.inf), np.int64(-1)
    for k in range(K):
        best, place = last, np.int64(-1)
        j = np.int64(cuda.threadIdx.x)
        while j < columns:
            value = widened(x[source, j])
            remains = value < last or (value == last and j > place_of_last)
            if remains and goes_before(value, j, best, place):
                best, place = value, j
            j += np.int64(WARP)
        reach = WARP // 2
        while reach > 0:
            other, there = shuffle_xor(best, reach), shuffle_xor(place, reach)
            if goes_before(other, there, best, place):
                best, place = other, there
            reach //= 2
        if cuda.threadIdx.x == 0 and row < rows:
            values[row, k], indices[row, k] = best, place
        last, place_of_last = best, place


def launch(inputs, outs):
    if inputs[0].shape[1] < K:
        raise ValueError(COLUMNS)
    return {"grid": -(-inputs[0].shape[0] // ROWS), "block": (WARP, ROWS)}
