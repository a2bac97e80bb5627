"""The kernel of add in Numba-CUDA: a thread for each element."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel


@kernel
def add_cuda(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@kernel
def add_wide(x, y, out):
    """For numba-cuda-mlir, whose ``cuda.grid`` has 32 bits: too few for the elements of a large array."""
    i = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if i < np.uint64(out.size):
        out[i] = x[i] + y[i]
