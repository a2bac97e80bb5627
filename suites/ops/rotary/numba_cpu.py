"""Kernels of rotary in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW


@numba.njit
def rotate_position(x, cos, sin, out):
    """Turns all heads of one position."""
    half = cos.size
    for h in range(x.shape[0]):
        for j in range(half):
            a, b = x[h, j], x[h, j + half]
            out[h, j] = a * cos[j] - b * sin[j]
            out[h, j + half] = b * cos[j] + a * sin[j]


@numba.njit
def rotary(x, cos, sin, out):
    for i in range(x.shape[0]):
        rotate_position(x[i], cos[i], sin[i], out[i])


@numba.njit(parallel=True)
def rotary_parallel(x, cos, sin, out):
    if x.size < ONE_THREAD_BELOW:
        rotary(x, cos, sin, out)
    else:
        for i in numba.prange(x.shape[0]):
            rotate_position(x[i], cos[i], sin[i], out[i])
