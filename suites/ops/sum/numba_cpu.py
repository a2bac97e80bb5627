"""Kernels of sum in Numba, for CPUs."""

import numba

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, block_count, block_sum, blocked_sum


@numba.njit
def total(x, out):
    out[0] = blocked_sum(x)


@numba.njit(parallel=True)
def total_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        total(x, out)
    else:
        running = x.dtype.type(0)
        for block in numba.prange(block_count(x.size)):
            running += block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        out[0] = running
