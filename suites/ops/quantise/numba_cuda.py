"""The kernel of quantise in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, rows_of, widened
from suites.kernels.numba_cuda.warps import WARPS, larger, largest_of_lanes
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@kernel
def quantise_cuda(x, quantised, scales):
    """The threads with one ``threadIdx.y`` share a row. They read it twice, the second time from the cache."""
    shared = cuda.shared.array(WARPS, scales.dtype)
    # Beside this number there is no fraction: a number that is added to it is rounded to the nearest even integer.
    whole = scales.dtype.type(1.5 * 2.0**23 if scales.itemsize == 4 else 1.5 * 2.0**52)
    rows, columns = np.uint64(x.shape[0]), np.uint64(x.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the maximum
        row = first + np.uint64(cuda.threadIdx.y)
        stop = columns if row < rows else np.uint64(0)
        largest = scales.dtype.type(TINY)
        j = lane
        while j < stop:
            largest = larger(abs(widened(x[row, j])), largest)
            j += lanes
        scale = largest_of_lanes(shared, largest, cuda.blockDim.x) / scales.dtype.type(LEVELS)
        j = lane
        while j < stop:
            quantised[row, j] = np.int8((widened(x[row, j]) / scale + whole) - whole)
            j += lanes
        if row < rows and lane == np.uint64(0):
            scales[row] = scale
        first += np.uint64(cuda.gridDim.x) * height


def launch(inputs, outs):
    return rows_of(*inputs[0].shape)
