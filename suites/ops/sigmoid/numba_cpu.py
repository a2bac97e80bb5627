"""Kernels of sigmoid in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW
from suites.kernels.numba_cpu.math import exponential


@numba.njit(error_model="numpy")
def sigmoid(x, out):
    one = x.dtype.type(1)
    for i in range(out.size):
        out[i] = one / (one + exponential(-x[i]))


@numba.njit(parallel=True, error_model="numpy")
def sigmoid_parallel(x, out):
    if out.size < ONE_THREAD_BELOW:
        sigmoid(x, out)
    else:
        one = x.dtype.type(1)
        for i in numba.prange(out.size):
            out[i] = one / (one + exponential(-x[i]))
