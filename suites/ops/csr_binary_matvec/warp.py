"""Kernels of csr_binary_matvec in Warp."""

import functools

from suites.kernels.warp.blocks import LANES, scalar, wp
from suites.ops.csr_binary_matvec.numba_cpu import LENGTHS


@functools.cache
def csr_binary_matvec_warp(dtype):
    """Threads share rows as in csr_matvec."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_binary_matvec(
        data: vector, indices: integers, indptr: integers, spikes: wp.array(dtype=wp.bool), out: vector
    ):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            total = element(0)
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                # No branch: the CPU would mispredict it, and a GPU would load the weight only after the spike.
                total += wp.where(spikes[indices[k]], data[k], element(0))
            wp.atomic_add(out, row, total)

    return csr_binary_matvec


def launch(inputs, outs):
    if inputs[0].shape != inputs[1].shape:
        raise ValueError(LENGTHS)
    return {"launch_dims": outs[0].shape[0] * LANES, "in_out_argnames": ["out"], "enable_backward": True}
