"""Kernels of depthwise_conv in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW
from suites.kernels.numba_cpu.wide import round_to, sums_for


@numba.njit(fastmath={"contract"})
def convolve(x, taps, out):
    """Adds a tap times the shifted channel at a time: neighbours are neighbours in vector registers."""
    sums = sums_for(out)
    sums[:] = 0
    for k in range(taps.size):
        shift = taps.size - 1 - k
        for t in range(shift, x.size):
            sums[t] += taps[k] * x[t - shift]
    round_to(out, sums)


@numba.njit
def depthwise_conv(x, taps, out):
    for c in range(x.shape[0]):
        convolve(x[c], taps[c], out[c])


@numba.njit(parallel=True)
def depthwise_conv_parallel(x, taps, out):
    if x.size < ONE_THREAD_BELOW:
        depthwise_conv(x, taps, out)
    else:
        for c in numba.prange(x.shape[0]):
            convolve(x[c], taps[c], out[c])
