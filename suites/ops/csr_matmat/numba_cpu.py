"""Kernels of csr_matmat in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, is_csr, rows_of_part
from suites.kernels.numba_cpu.wide import round_to, sums_for

LENGTHS = "csr_matmat: data and indices must have one length"


@numba.njit(fastmath={"reassoc"})
def csr_product_rows(data, indices, indptr, X, out, first, last):
    """The rows from ``first`` up to ``last``, four non-zeros at a time: so it passes less often through out.

    Unsigned indices never count from the end. So LLVM sees that columns are neighbours.
    """
    columns = np.uint64(out.shape[1])
    for row in range(np.uint64(first), np.uint64(last)):
        sums = sums_for(out[row])
        for j in range(columns):
            sums[j] = 0
        k, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
        while k + np.uint64(3) < stop:
            k1, k2, k3 = k + np.uint64(1), k + np.uint64(2), k + np.uint64(3)
            a, b, c, d = data[k], data[k1], data[k2], data[k3]
            ia, ib = np.uint32(indices[k]), np.uint32(indices[k1])
            ic, id_ = np.uint32(indices[k2]), np.uint32(indices[k3])
            for j in range(columns):
                sums[j] += (a * X[ia, j] + b * X[ib, j]) + (c * X[ic, j] + d * X[id_, j])
            k += np.uint64(4)
        while k < stop:
            a, ia = data[k], np.uint32(indices[k])
            for j in range(columns):
                sums[j] += a * X[ia, j]
            k += np.uint64(1)
        round_to(out[row], sums)


@numba.njit
def csr_matmat(data, indices, indptr, X, out):
    if not is_csr(data, indices, indptr, out.shape[0]):
        raise ValueError(LENGTHS)
    csr_product_rows(data, indices, indptr, X, out, 0, out.shape[0])


@numba.njit(parallel=True)
def csr_matmat_parallel(data, indices, indptr, X, out):
    if data.size < ONE_THREAD_BELOW:
        csr_matmat(data, indices, indptr, X, out)
    else:
        if not is_csr(data, indices, indptr, out.shape[0]):
            raise ValueError(LENGTHS)
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_product_rows(data, indices, indptr, X, out, first, last)
