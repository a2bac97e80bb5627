"""The kernel of embedding in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, rows_of


@kernel
def embedding_cuda(table, indices, out):
    """The threads with one ``threadIdx.y`` copy a row: neighbours read and write neighbours."""
    rows, columns = np.uint64(out.shape[0]), np.uint64(out.shape[1])
    row = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    while row < rows:
        source = np.uint64(indices[row])
        j = np.uint64(cuda.threadIdx.x)
        while j < columns:
            out[row, j] = table[source, j]
            j += np.uint64(cuda.blockDim.x)
        row += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.y)


def launch(inputs, outs):
    rows, columns = outs[0].shape
    return rows_of(rows, columns)
