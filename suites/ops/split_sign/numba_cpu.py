"""Kernels of split_sign in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW


@numba.njit
def split_sign(x, positive, negative):
    zero = x.dtype.type(0)
    for i in range(x.size):
        value = x[i]
        positive[i] = zero if value <= zero else value
        negative[i] = zero if value >= zero else value


@numba.njit(parallel=True)
def split_sign_parallel(x, positive, negative):
    if x.size < ONE_THREAD_BELOW:
        split_sign(x, positive, negative)
    else:
        zero = x.dtype.type(0)
        for i in numba.prange(x.size):
            value = x[i]
            positive[i] = zero if value <= zero else value
            negative[i] = zero if value >= zero else value
