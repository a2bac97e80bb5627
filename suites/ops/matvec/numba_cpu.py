"""Kernels of matvec in Numba, for CPUs."""

import numba

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, blocked_dot, short_dots
from suites.kernels.numba_cpu.wide import round_to, sums_for, widened


@numba.njit
def rows_of_product(A, x, first, last, out):
    """The rows from ``first`` up to ``last``."""
    if x.size <= BLOCK:
        sums = sums_for(out[first:last])
        short_dots(widened(A[first:last]), widened(x), 0, last - first, sums)
        round_to(out[first:last], sums)
    else:
        for row in range(first, last):
            out[row] = blocked_dot(A[row], x)


@numba.njit
def matvec(A, x, out):
    if A.shape[1] != x.size:
        raise ValueError("matvec: A must have as many columns as x has elements")
    rows_of_product(A, x, 0, out.size, out)


@numba.njit(parallel=True)
def matvec_parallel(A, x, out):
    if A.size < ONE_THREAD_BELOW:
        matvec(A, x, out)
    else:
        if A.shape[1] != x.size:
            raise ValueError("matvec: A must have as many columns as x has elements")
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            rows_of_product(A, x, out.size * part // parts, out.size * (part + 1) // parts, out)
