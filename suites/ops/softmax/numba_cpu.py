"""Kernels of softmax in Numba, for CPUs."""

import numba

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, block_exp, largest_element, multiply
from suites.kernels.numba_cpu.wide import round_to, sums_for, widened


@numba.njit(error_model="numpy", forceinline=True)
def softmax_row(x, out):
    if x.size == 0:
        return
    row, result = widened(x), sums_for(out)
    largest = largest_element(row)
    total = row.dtype.type(0)
    for start in range(0, row.size, BLOCK):
        total += block_exp(row[start : start + BLOCK], largest, result[start : start + BLOCK])
    multiply(result, row.dtype.type(1) / total)
    round_to(out, result)


@numba.njit(error_model="numpy")
def softmax(x, out):
    for row in range(x.shape[0]):
        softmax_row(x[row], out[row])


@numba.njit(parallel=True, error_model="numpy")
def softmax_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        softmax(x, out)
    else:
        for row in numba.prange(x.shape[0]):
            softmax_row(x[row], out[row])
