"""Kernels of histogram in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import LOADS, PARTIALS, THREADS, cuda, device, kernel, load, wide_number, widened

SHARED_BINS = 4096
"""The most bins that a block counts in shared memory: with 16 KiB per block a multiprocessor can be full."""

_EACH = 4 * LOADS
"""Elements per thread before there are more blocks: each block adds all its bins, so few blocks are better."""


@device
def count(table, value, bins):
    """Counts one element, in shared or in global memory."""
    if value >= 0 and value < bins:
        cuda.atomic.add(table, np.uint64(value), np.int32(1))


@kernel
def histogram_cuda(x, counts, out):
    """Adds to ``out``, which is in the memory of ``counts``. A block first counts in shared memory if the bins fit."""
    shared = cuda.shared.array(SHARED_BINS, out.dtype)
    all_bins, lane = np.uint64(out.size), np.uint64(cuda.threadIdx.x)
    private = all_bins <= np.uint64(SHARED_BINS)
    if private:
        i = lane
        while i < all_bins:
            shared[i] = 0
            i += np.uint64(THREADS)
    cuda.syncthreads()
    bins = wide_number(x, all_bins)
    i, step, size = np.uint64(cuda.grid(1)), np.uint64(cuda.gridsize(1)), np.uint64(x.size)
    while i + step * np.uint64(LOADS - 1) < size:
        a, b, c, d = load(x, i, step)
        if private:
            count(shared, a, bins)
            count(shared, b, bins)
            count(shared, c, bins)
            count(shared, d, bins)
        else:
            count(out, a, bins)
            count(out, b, bins)
            count(out, c, bins)
            count(out, d, bins)
        i += step * np.uint64(LOADS)
    while i < size:
        if private:
            count(shared, widened(x[i]), bins)
        else:
            count(out, widened(x[i]), bins)
        i += step
    cuda.syncthreads()
    if private:
        i = lane
        while i < all_bins:
            if shared[i] != 0:
                cuda.atomic.add(out, i, shared[i])
            i += np.uint64(THREADS)


def launch(inputs, outs):
    # At least one block: without elements the result is counts, which a launch of no block would not write.
    blocks = min(max(-(-inputs[0].shape[0] // (THREADS * _EACH)), 1), PARTIALS)
    return {"grid": blocks, "block": THREADS, "input_output_aliases": {1: 0}}
