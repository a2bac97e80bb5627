"""Kernels of rms_norm in Numba, for CPUs."""

import math

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, blocked_squares

EPSILON = 1e-6


@numba.njit(error_model="numpy")
def norm_row(x, weight, out):
    squares = blocked_squares(x, x.dtype.type(0))
    real = type(squares)
    scale = real(1) / math.sqrt(squares / real(x.size) + real(EPSILON))
    for j in range(x.size):
        out[j] = x[j] * scale * weight[j]


@numba.njit
def rms_norm(x, weight, out):
    for i in range(x.shape[0]):
        norm_row(x[i], weight, out[i])


@numba.njit(parallel=True)
def rms_norm_parallel(x, weight, out):
    if x.size < ONE_THREAD_BELOW:
        rms_norm(x, weight, out)
    else:
        for i in numba.prange(x.shape[0]):
            norm_row(x[i], weight, out[i])
