"""Kernels of split_sign in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import kernel, wide_number, widened
from suites.kernels.numba_cuda.vectors import aligned, neighbour_tile, neighbours, store_neighbours


@kernel
def split_sign_cuda(x, positive, negative):
    zero = wide_number(x, 0)
    i, stop, full = neighbour_tile(x.size)
    if full and aligned(x) and aligned(positive) and aligned(negative):
        a, b, c, d = neighbours(x, i)
        above = zero if a <= zero else a, zero if b <= zero else b, zero if c <= zero else c, zero if d <= zero else d
        below = zero if a >= zero else a, zero if b >= zero else b, zero if c >= zero else c, zero if d >= zero else d
        store_neighbours(positive, i, above)
        store_neighbours(negative, i, below)
    else:
        while i < stop:
            value = widened(x[i])
            positive[i] = zero if value <= zero else value
            negative[i] = zero if value >= zero else value
            i += np.uint64(1)
