"""Kernels of csr_binary_matvec in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import device
from suites.kernels.numba_cuda.sparse_blocks import csr_row_sums


@device
def active_part(data, indices, spikes, first, stop, step):
    """One lane's part of a row's sum. It looks up four spikes at a time, then the weights of neurons that spiked."""
    total = zero = data.dtype.type(0)
    k = first
    while k + step * np.uint64(3) < stop:
        k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
        a, b = spikes[np.uint64(indices[k])], spikes[np.uint64(indices[k1])]
        c, d = spikes[np.uint64(indices[k2])], spikes[np.uint64(indices[k3])]
        if a or b or c or d:
            total += ((data[k] if a else zero) + (data[k1] if b else zero)) + (
                (data[k2] if c else zero) + (data[k3] if d else zero)
            )
        k += step * np.uint64(4)
    while k < stop:
        if spikes[np.uint64(indices[k])]:
            total += data[k]
        k += step
    return total


csr_binary_matvec_cuda = csr_row_sums(active_part)
