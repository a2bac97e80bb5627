"""Kernels of quantise in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW

LEVELS = 127
"""The largest integer that an element becomes."""

TINY = 1e-30
"""The least magnitude that a row is scaled by."""


@numba.njit(error_model="numpy")
def quantise_row(x, quantised, scales, i):
    largest = scales.dtype.type(TINY)
    for j in range(x.size):
        largest = max(largest, abs(x[j]))
    scales[i] = scale = largest / scales.dtype.type(LEVELS)
    for j in range(x.size):
        quantised[j] = np.int8(np.rint(x[j] / scale))


@numba.njit
def quantise(x, quantised, scales):
    for i in range(x.shape[0]):
        quantise_row(x[i], quantised[i], scales, i)


@numba.njit(parallel=True)
def quantise_parallel(x, quantised, scales):
    if x.size < ONE_THREAD_BELOW:
        quantise(x, quantised, scales)
    else:
        for i in numba.prange(x.shape[0]):
            quantise_row(x[i], quantised[i], scales, i)
