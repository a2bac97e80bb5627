"""Kernels of mean_std in Numba, for CPUs."""

import math

import numba

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import (
    ONE_THREAD_BELOW,
    block_count,
    block_squares,
    block_sum,
    blocked_squares,
    blocked_sum,
)
from suites.kernels.numba_cpu.wide import sums_for


@numba.njit(error_model="numpy")
def mean_std(x, mean_out, std_out):
    total = blocked_sum(x)
    mean = type(total)(total / x.size)
    mean_out[0] = mean
    std_out[0] = math.sqrt(blocked_squares(x, mean) / x.size)


@numba.njit(parallel=True, error_model="numpy")
def mean_std_parallel(x, mean_out, std_out):
    if x.size < ONE_THREAD_BELOW:
        mean_std(x, mean_out, std_out)
    else:
        blocks = block_count(x.size)
        total = x.dtype.type(0)
        for block in numba.prange(blocks):
            total += block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        mean = sums_for(x[:0]).dtype.type(total / x.size)
        squares = x.dtype.type(0)
        for block in numba.prange(blocks):
            squares += block_squares(x[block * BLOCK : (block + 1) * BLOCK], mean)
        mean_out[0] = mean
        std_out[0] = math.sqrt(squares / x.size)
