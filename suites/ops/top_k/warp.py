"""The kernel of top_k in Warp."""

import functools

from suites.kernels.warp.blocks import scalar, wp
from suites.ops.top_k.numba_cpu import COLUMNS, K


@functools.cache
def top_k_warp(dtype):
    """A thread for each row. It looks for the largest element K times, each time among those after the one before."""
    element = scalar(dtype)
    matrix = wp.array2d(dtype=element)

    @wp.kernel(module="unique", enable_backward=False)
    def top_k(x: matrix, values: matrix, indices: wp.array2d(dtype=wp.int32)):
        i = wp.tid()
        last, place_of_last = element(wp.inf), wp.int32(-1)
        for k in range(K):
            best, place = element(0), wp.int32(-1)
            for j in range(x.shape[1]):
                value = x[i, j]
                remains = value < last or (value == last and j > place_of_last)
                if remains and (place < 0 or value > best):
                    best = value
                    place = j
            values[i, k] = best
            indices[i, k] = place
            last = best
            place_of_last = place

    return top_k


def launch(inputs, outs):
    if inputs[0].shape[1] < K:
        raise ValueError(COLUMNS)
    shape = outs[0].shape
    return {"launch_dims": shape[0], "output_dims": {"values": shape, "indices": shape}}
