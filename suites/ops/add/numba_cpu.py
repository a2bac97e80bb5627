"""The kernels of add in Numba, for CPUs: on one thread and on several."""

import numba


@numba.njit
def add(x, y, out):
    if x.size != out.size or y.size != out.size:
        raise ValueError("add: x and y must have one length")
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit(parallel=True)
def add_parallel(x, y, out):
    if x.size != out.size or y.size != out.size:
        raise ValueError("add: x and y must have one length")
    for i in numba.prange(out.size):
        out[i] = x[i] + y[i]
