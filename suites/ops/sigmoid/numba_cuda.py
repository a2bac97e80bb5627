"""Kernels of sigmoid in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import device, kernel, quotient, widened
from suites.kernels.numba_cuda.vectors import aligned, neighbour_tile, neighbours, store_neighbours


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
