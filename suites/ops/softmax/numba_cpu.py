"""Kernels of softmax in Numba, for CPUs."""

import numba

from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_exp, largest_element, multiply


@numba.njit(error_model="numpy", forceinline=True)
def softmax_row(x, out):
    if x.size == 0:
        return
    largest = largest_element(x)
    total = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        total += block_exp(x[start : start + BLOCK], largest, out[start : start + BLOCK])
    multiply(out, x.dtype.type(1) / total)


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
