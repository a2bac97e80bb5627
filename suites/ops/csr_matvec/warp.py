"""Kernels of csr_matvec in Warp."""

import functools

from suites.kernels.warp.blocks import LANES, scalar, wp
from suites.ops.csr_matvec.numba_cpu import LENGTHS


@functools.cache
def csr_matvec_warp(dtype):
    """LANES threads share a row, and add up their parts by atomic operations. On the CPU one thread has the row."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_matvec(data: vector, indices: integers, indptr: integers, x: vector, out: vector):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            total = element(0)
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                total += data[k] * x[indices[k]]
            wp.atomic_add(out, row, total)

    return csr_matvec


def launch(inputs, outs):
    if inputs[0].shape != inputs[1].shape:
        raise ValueError(LENGTHS)
    return {"launch_dims": outs[0].shape[0] * LANES, "in_out_argnames": ["out"], "enable_backward": True}
