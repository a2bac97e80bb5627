"""The kernel of matvec in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, rows_of, wide_dtype, wide_number, widened
from suites.kernels.numba_cuda.warps import WARPS, sum_of_lanes


@kernel
def matvec_cuda(A, x, out):
    """The threads with one ``threadIdx.y`` share a row, and load an element at a time."""
    shared = cuda.shared.array(WARPS, wide_dtype(out))
    rows, columns = np.uint64(A.shape[0]), np.uint64(A.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the sum
        row = first + np.uint64(cuda.threadIdx.y)
        share = wide_number(out, 0)
        j = lane if row < rows else columns
        while j < columns:
            share += widened(A[row, j]) * widened(x[j])
            j += lanes
        total = sum_of_lanes(shared, share, cuda.blockDim.x)
        if lane == np.uint64(0) and row < rows:
            out[row] = total
        first += np.uint64(cuda.gridDim.x) * height


def launch(inputs, outs):
    return rows_of(*inputs[0].shape)
