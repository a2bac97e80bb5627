"""Kernels of csr_rmatvec in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import LONG, cuda, kernel
from suites.kernels.numba_cuda.sparse_blocks import csr_launch, scatter_terms


@kernel
def csr_rmatvec_cuda(data, indices, indptr, x, y, out):
    """Adds to ``out``, which is in the memory of ``y``. Threads share rows as in csr_row_sums."""
    rows, lanes, height = np.uint64(x.size), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    lane = np.uint64(cuda.threadIdx.x)
    place = np.uint64(cuda.threadIdx.y) * lanes + lane
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise in syncthreads_or
        row = first + np.uint64(cuda.threadIdx.y)
        start, stop = np.uint64(0), np.uint64(0)
        if row < rows:
            start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
        is_long = stop - start > lanes * np.uint64(LONG)
        if stop > start and not is_long:
            scatter_terms(data, indices, x[row], out, start + lane, stop, lanes)
        if cuda.syncthreads_or(1 if is_long else 0):
            row = first
            while row < rows and row < first + height:
                start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                if stop - start > lanes * np.uint64(LONG):
                    scatter_terms(data, indices, x[row], out, start + place, stop, lanes * height)
                row += np.uint64(1)
        first += np.uint64(cuda.gridDim.x) * height


def launch(inputs, outs):
    launch = csr_launch(max(inputs[3].shape[0], 1), inputs[0].shape[0])
    # At least one block: without rows the result is y, which a launch of no block would not write.
    return launch | {"input_output_aliases": {4: 0}}
