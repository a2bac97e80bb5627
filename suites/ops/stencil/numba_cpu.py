"""Kernels of stencil in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, copy_to


@numba.njit
def stencil_row(u, rate, out, i):
    """One row, which may be a rim of the grid."""
    rows, columns = u.shape
    if i == 0 or i == rows - 1 or columns < 3:
        copy_to(out[i], u[i])
    else:
        four = u.dtype.type(4)
        # Rows are separate arrays, so that LLVM sees that no column counts from the end.
        above, row, below, new = u[i - 1], u[i], u[i + 1], out[i]
        new[0] = row[0]
        for j in range(1, columns - 1):
            new[j] = row[j] + rate * ((above[j] + below[j]) + (row[j - 1] + row[j + 1]) - four * row[j])
        new[columns - 1] = row[columns - 1]


@numba.njit
def stencil(u, rate, out):
    for i in range(u.shape[0]):
        stencil_row(u, rate[0], out, i)


@numba.njit(parallel=True)
def stencil_parallel(u, rate, out):
    if u.size < ONE_THREAD_BELOW:
        stencil(u, rate, out)
    else:
        for i in numba.prange(u.shape[0]):
            stencil_row(u, rate[0], out, i)
