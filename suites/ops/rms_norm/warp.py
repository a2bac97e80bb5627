"""The kernel of rms_norm in Warp."""

import functools

from suites.kernels.warp.blocks import blocks, real, scalar, wp
from suites.kernels.warp.rows import threads_for
from suites.kernels.warp.vectors import block_of, thread_of_block
from suites.ops.rms_norm.numba_cpu import EPSILON


@functools.cache
def rms_norm_warp(dtype):
    """A block for each row."""
    element, wider = scalar(dtype), real(dtype)
    matrix, vector = wp.array2d(dtype=element), wp.array(dtype=element)

    # The loop is in a function of its own: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def squares_of_share(x: vector, lane: int):
        total = wider(0)
        for j in range(lane, x.shape[0], wp.block_dim()):
            total += wider(x[j]) * wider(x[j])
        return total

    @wp.kernel(module="unique")
    def rms_norm(x: matrix, weight: vector, out: matrix):
        row, lane = block_of(wp.tid()), thread_of_block()
        squares = wp.tile_sum(wp.tile(squares_of_share(x[row], lane)))[0]
        scale = wider(1) / wp.sqrt(squares / wider(x.shape[1]) + wider(EPSILON))
        for j in range(lane, x.shape[1], wp.block_dim()):
            out[row, j] = element(wider(x[row, j]) * scale * wider(weight[j]))

    return rms_norm


def launch(inputs, outs):
    rows, columns = outs[0].shape
    launch = blocks(rows if columns else 0, threads_for(columns, outs[0].dtype))
    return {**launch, "output_dims": outs[0].shape, "enable_backward": True}
