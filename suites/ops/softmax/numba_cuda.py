"""The kernel of softmax in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, quotient, rows_of, wide_dtype, wide_number, widened
from suites.kernels.numba_cuda.warps import WARPS, larger, largest_of_lanes, sum_of_lanes


@kernel
def softmax_cuda(x, out):
    """The threads of one ``threadIdx.y`` read a row three times, but only once from memory if the cache holds it."""
    shared = cuda.shared.array(WARPS, wide_dtype(out))
    nothing = wide_number(out, 0)
    rows, columns = np.uint64(x.shape[0]), np.uint64(x.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the maximum and the sum
        row = first + np.uint64(cuda.threadIdx.y)
        stop = columns if row < rows else np.uint64(0)
        largest, total = wide_number(out, -np.inf), nothing
        j = lane
        while j < stop:
            largest = larger(widened(x[row, j]), largest)
            j += lanes
        largest = largest_of_lanes(shared, largest, cuda.blockDim.x)
        j = lane
        while j < stop:
            total += math.exp(widened(x[row, j]) - largest)
            j += lanes
        scale = quotient(wide_number(out, 1), sum_of_lanes(shared, total, cuda.blockDim.x))
        j = lane
        while j < stop:
            out[row, j] = math.exp(widened(x[row, j]) - largest) * scale
            j += lanes
        first += np.uint64(cuda.gridDim.x) * height


def launch(inputs, outs):
    rows, columns = outs[0].shape
    return rows_of(rows if columns else 0, columns)
