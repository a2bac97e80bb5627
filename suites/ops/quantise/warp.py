"""The kernel of quantise in Warp."""

import functools

from suites.kernels.warp.blocks import blocks, real, scalar, wp
from suites.kernels.warp.rows import threads_for
from suites.kernels.warp.vectors import block_of, thread_of_block
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@functools.cache
def quantise_warp(dtype):
    """A block for each row."""
    element, wider = scalar(dtype), real(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def quantise(x: wp.array2d(dtype=element), quantised: wp.array2d(dtype=wp.int8), scales: wp.array(dtype=wider)):
        row, lane = block_of(wp.tid()), thread_of_block()
        largest = wider(TINY)
        for j in range(lane, x.shape[1], wp.block_dim()):
            largest = wp.max(wp.abs(wider(x[row, j])), largest)
        scale = wp.tile_max(wp.tile(largest))[0] / wider(LEVELS)
        for j in range(lane, x.shape[1], wp.block_dim()):
            quantised[row, j] = wp.int8(wp.rint(wider(x[row, j]) / scale))
        if lane == 0:
            scales[row] = scale

    return quantise


def launch(inputs, outs):
    rows, columns = outs[0].shape
    dims = {"quantised": (rows, columns), "scales": (rows,)}
    return {**blocks(rows, threads_for(columns, inputs[0].dtype)), "output_dims": dims}
