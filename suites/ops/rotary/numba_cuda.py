"""The kernel of rotary in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, widened


@kernel
def rotary_cuda(x, cos, sin, out):
    """A thread for each element: neighbours read neighbours, and the other half of a head comes from the cache."""
    n = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if n < np.uint64(out.size):
        width, half = np.uint64(x.shape[2]), np.uint64(cos.shape[1])
        row, j = n // width, n % width
        i, h = row // np.uint64(x.shape[1]), row % np.uint64(x.shape[1])
        if j < half:
            a, b = widened(x[i, h, j]), widened(x[i, h, j + half])
            out[i, h, j] = a * widened(cos[i, j]) - b * widened(sin[i, j])
        else:
            a, b = widened(x[i, h, j - half]), widened(x[i, h, j])
            out[i, h, j] = b * widened(cos[i, j - half]) + a * widened(sin[i, j - half])
