"""Kernels of cumsum in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, block_count, block_sum
from suites.kernels.numba_cpu.wide import round_to, sums_for

QUARTER = BLOCK // 4


@numba.njit
def block_cumsum(x, before, out):
    """The running sums of a block, starting from ``before``. Returns the sum of the block alone.

    It adds up four quarters side by side: in a single chain each addition would wait for the one before.
    """
    a = b = c = d = x.dtype.type(0)
    sums = sums_for(out)
    if x.size == BLOCK:
        for i in range(QUARTER):
            a += x[i]
            b += x[i + QUARTER]
            c += x[i + 2 * QUARTER]
            d += x[i + 3 * QUARTER]
            sums[i] = a
            sums[i + QUARTER] = b
            sums[i + 2 * QUARTER] = c
            sums[i + 3 * QUARTER] = d
        before_b, before_c, before_d = before + a, before + (a + b), before + (a + b + c)
        for i in range(QUARTER):
            sums[i] += before
            sums[i + QUARTER] += before_b
            sums[i + 2 * QUARTER] += before_c
            sums[i + 3 * QUARTER] += before_d
    else:
        for i in range(x.size):
            a += x[i]
            sums[i] = before + a
    round_to(out, sums)
    return (a + b) + (c + d)


@numba.njit
def cumsum(x, out):
    before = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        before += block_cumsum(x[start : start + BLOCK], before, out[start : start + BLOCK])


@numba.njit(parallel=True)
def cumsum_parallel(x, out):
    """First the sums of all blocks, then the sum before each block, then the running sums within the blocks."""
    if x.size < ONE_THREAD_BELOW:
        cumsum(x, out)
    else:
        blocks = block_count(x.size)
        before = np.zeros(blocks + 1, sums_for(x[:0]).dtype)
        for block in numba.prange(blocks):
            before[block + 1] = block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        for block in range(blocks):
            before[block + 1] += before[block]
        for block in numba.prange(blocks):
            first, last = block * BLOCK, (block + 1) * BLOCK
            block_cumsum(x[first:last], before[block], out[first:last])
