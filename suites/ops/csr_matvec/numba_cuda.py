"""Kernels of csr_matvec in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import device
from suites.kernels.numba_cuda.sparse_blocks import csr_row_sums, streamed


@device
def sparse_part(data, indices, x, first, stop, step):
    """One lane's part of a row's sum. It loads four terms at once, at the end of a row too: each takes long."""
    total = zero = data.dtype.type(0)
    k = first
    while k + step * np.uint64(3) < stop:
        k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
        i, i1, i2, i3 = streamed(indices, k), streamed(indices, k1), streamed(indices, k2), streamed(indices, k3)
        a, b, c, d = streamed(data, k), streamed(data, k1), streamed(data, k2), streamed(data, k3)
        total += (a * x[np.uint64(i)] + b * x[np.uint64(i1)]) + (c * x[np.uint64(i2)] + d * x[np.uint64(i3)])
        k += step * np.uint64(4)
    if k < stop:
        k1, k2, last = k + step, k + step * np.uint64(2), stop - np.uint64(1)
        l1, l2 = min(k1, last), min(k2, last)  # beyond the end the last term is loaded again and does not count
        i, i1, i2 = streamed(indices, k), streamed(indices, l1), streamed(indices, l2)
        a, b, c = streamed(data, k), streamed(data, l1), streamed(data, l2)
        p, q, r = a * x[np.uint64(i)], b * x[np.uint64(i1)], c * x[np.uint64(i2)]
        total += p + ((q if k1 < stop else zero) + (r if k2 < stop else zero))
    return total


csr_matvec_cuda = csr_row_sums(sparse_part)
