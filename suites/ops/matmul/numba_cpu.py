"""Kernels of matmul in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW
from suites.kernels.numba_cpu.wide import round_to, sums_for

DEPTHS = "matmul: A must have as many columns as B has rows"

PANEL = 64
"""Rows of B that are used for all rows of A before the next ones are: they stay in a cache."""


@numba.njit(fastmath={"contract"})
def add_scaled(row, factor, out):
    for j in range(out.size):
        out[j] += factor * row[j]


@numba.njit
def product_rows(A, B, out, first, last):
    """The rows from ``first`` up to ``last``. Neighbours in a row of B are neighbours in vector registers."""
    out[first:last] = 0
    depth = A.shape[1]
    for start in range(0, depth, PANEL):
        for i in range(first, last):
            for k in range(start, min(start + PANEL, depth)):
                add_scaled(B[k], A[i, k], out[i])


@numba.njit
def matmul(A, B, out):
    if A.shape[1] != B.shape[0]:
        raise ValueError(DEPTHS)
    sums = sums_for(out)
    product_rows(A, B, sums, 0, out.shape[0])
    round_to(out, sums)


@numba.njit(parallel=True)
def matmul_parallel(A, B, out):
    if A.shape[1] != B.shape[0]:
        raise ValueError(DEPTHS)
    sums = sums_for(out)
    if out.size * A.shape[1] < ONE_THREAD_BELOW:
        product_rows(A, B, sums, 0, out.shape[0])
    else:
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            product_rows(A, B, sums, out.shape[0] * part // parts, out.shape[0] * (part + 1) // parts)
    round_to(out, sums)
