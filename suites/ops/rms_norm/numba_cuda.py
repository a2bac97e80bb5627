"""The kernel of rms_norm in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, rows_of, wide_dtype, wide_number, widened
from suites.kernels.numba_cuda.warps import WARPS, sum_of_lanes
from suites.ops.rms_norm.numba_cpu import EPSILON


@kernel
def rms_norm_cuda(x, weight, out):
    """The threads with one ``threadIdx.y`` share a row. They read it twice, the second time from the cache."""
    shared = cuda.shared.array(WARPS, wide_dtype(out))
    rows, columns = np.uint64(x.shape[0]), np.uint64(x.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the sum
        row = first + np.uint64(cuda.threadIdx.y)
        stop = columns if row < rows else np.uint64(0)
        squares = wide_number(out, 0)
        j = lane
        while j < stop:
            squares += widened(x[row, j]) * widened(x[row, j])
            j += lanes
        mean = sum_of_lanes(shared, squares, cuda.blockDim.x) / wide_number(out, x.shape[1])
        scale = wide_number(out, 1) / math.sqrt(mean + wide_number(out, EPSILON))
        j = lane
        while j < stop:
            out[row, j] = widened(x[row, j]) * scale * widened(weight[j])
            j += lanes
        first += np.uint64(cuda.gridDim.x) * height


def launch(inputs, outs):
    rows, columns = outs[0].shape
    return rows_of(rows if columns else 0, columns)
