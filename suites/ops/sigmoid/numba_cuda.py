"""Kernels of sigmoid in Numba-CUDA."""

import math

import numpy as np

from suites.backends.numba_cuda import (
    aligned,
    device,
    kernel,
    neighbour_tile,
    neighbours,
    quotient,
    store_neighbours,
    widened,
)


@device
def logistic(value, one):
    return quotient(one, one + math.exp(-value))


@kernel
def sigmoid_cuda(x, out):
    one = widened(x.dtype.type(1))
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        store_neighbours(out, i, (logistic(a, one), logistic(b, one), logistic(c, one), logistic(d, one)))
    else:
        while i < stop:
            out[i] = logistic(widened(x[i]), one)
            i += np.uint64(1)
