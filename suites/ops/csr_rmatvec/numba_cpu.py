"""Kernels of csr_rmatvec in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, add_partials, copy_to, is_csr, rows_of_part
from suites.kernels.numba_cpu.wide import round_to, sums_for

LENGTHS = "csr_rmatvec: data and indices must have one length, indptr one more element than x"


@numba.njit
def scatter_rows(data, indices, indptr, x, out, first, last):
    """Adds the rows from ``first`` up to ``last`` to ``out``."""
    for row in range(np.uint64(first), np.uint64(last)):
        factor = x[row]
        for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            out[np.uint32(indices[k])] += data[k] * factor


@numba.njit
def csr_rmatvec(data, indices, indptr, x, y, out):
    if not is_csr(data, indices, indptr, x.size):
        raise ValueError(LENGTHS)
    sums = sums_for(out)
    copy_to(sums, y)
    scatter_rows(data, indices, indptr, x, sums, 0, x.size)
    round_to(out, sums)


@numba.njit(parallel=True)
def csr_rmatvec_parallel(data, indices, indptr, x, y, out):
    """Each part of the rows has its own accumulator, so that no two threads share an element.

    There are at most as many parts as non-zeros per column. So the accumulators take no more work than the non-zeros.
    """
    parts = min(numba.get_num_threads(), data.size // max(y.size, 1))
    if data.size < ONE_THREAD_BELOW or parts < 2:
        csr_rmatvec(data, indices, indptr, x, y, out)
    else:
        if not is_csr(data, indices, indptr, x.size):
            raise ValueError(LENGTHS)
        partials = np.zeros((parts, y.size), sums_for(y[:0]).dtype)
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            scatter_rows(data, indices, indptr, x, partials[part], first, last)
        add_partials(y, partials, out)
