"""Kernels of scatter_add in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, kernel, load, tile, tile_count


@kernel
def scatter_add_cuda(values, targets, scale, acc, out):
    """Adds to ``out``, which lies in the memory of ``acc``."""
    factor = scale[0]
    i, step, full = tile(values.size)
    if full:
        a, slots = load(values, i, step), load(targets, i, step)
        cuda.atomic.add(out, np.uint64(slots[0]), a[0] * factor)
        cuda.atomic.add(out, np.uint64(slots[1]), a[1] * factor)
        cuda.atomic.add(out, np.uint64(slots[2]), a[2] * factor)
        cuda.atomic.add(out, np.uint64(slots[3]), a[3] * factor)
    else:
        while i < np.uint64(values.size):
            cuda.atomic.add(out, np.uint64(targets[i]), values[i] * factor)
            i += step


def launch(inputs, outs):
    # At least one block: without values the result is acc, which a launch of no block would not write.
    blocks = max(tile_count(inputs[0].shape[0]), 1)
    return {"grid": blocks, "block": THREADS, "input_output_aliases": {3: 0}}
