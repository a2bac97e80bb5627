"""Kernels of csr_rmatvec in Warp."""

import functools

from suites.kernels.warp.blocks import LANES, scalar, wp
from suites.ops.csr_rmatvec.numba_cpu import LENGTHS


@functools.cache
def csr_rmatvec_warp(dtype):
    """LANES threads share a row on a GPU, and each adds its part to ``y``. On the CPU one thread has the row."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_rmatvec(data: vector, indices: integers, indptr: integers, x: vector, y: vector):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                wp.atomic_add(y, indices[k], data[k] * x[row])

    return csr_rmatvec


def launch(inputs, outs):
    if inputs[0].shape != inputs[1].shape or inputs[2].shape[0] != inputs[3].shape[0] + 1:
        raise ValueError(LENGTHS)
    return {"launch_dims": inputs[3].shape[0] * LANES, "in_out_argnames": ["y"], "enable_backward": True}
