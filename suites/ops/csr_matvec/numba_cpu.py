"""Kernels of csr_matvec in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, is_csr, rows_of_part

LENGTHS = "csr_matvec: data and indices must have one length"


@numba.njit(fastmath={"reassoc"})
def sparse_dot(data, indices, x):
    """The sum of one row. :mod:`suites.kernels.numba_cpu.blocks` says why additions may be reordered."""
    total = x.dtype.type(0)
    for k in range(data.size):
        total += data[k] * x[np.uint32(indices[k])]
    return total


@numba.njit
def csr_rows(data, indices, indptr, x, out, first, last):
    """The rows from ``first`` up to ``last``."""
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        out[row] = sparse_dot(data[start:stop], indices[start:stop], x)


@numba.njit
def csr_matvec(data, indices, indptr, x, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    csr_rows(data, indices, indptr, x, out, 0, out.size)


@numba.njit(parallel=True)
def csr_matvec_parallel(data, indices, indptr, x, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    if data.size < ONE_THREAD_BELOW:
        csr_rows(data, indices, indptr, x, out, 0, out.size)
    else:
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_rows(data, indices, indptr, x, out, first, last)
