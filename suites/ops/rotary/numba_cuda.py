"""The kernel of rotary in Numba-CUDA."""

import numpy as np

from suites.backends.numba_cuda import cuda, kernel


@kernel
def rotary_cuda(x, cos, sin, out):
    """A thread for each element: neighbours read neighbours, and the other half of a head comes from the cache."""
    n = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if n < np.uint64(out.size):
        width, half = np.uint64(x.shape[2]), np.uint64(cos.shape[1])
        row, j = n // width, n % width
        i, h = row // np.uint64(x.shape[1]), row % np.uint64(x.shape[1])
        if j < half:
            out[i, h, j] = x[i, h, j] * cos[i, j] - x[i, h, j + half] * sin[i, j]
        else:
            out[i, h, j] = x[i, h, j] * cos[i, j - half] + x[i, h, j - half] * sin[i, j - half]
