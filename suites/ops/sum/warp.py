"""Kernels of sum in Warp."""

import bridge
from suites.kernels.warp.blocks import PARTS_THREADS, blocks, part_count
from suites.kernels.warp.blocks import add_up as add_up_warp
from suites.kernels.warp.blocks import add_up_parts as add_up_parts_warp


def total_warp(inputs, outs):
    """Two passes, so that the order of additions does not vary."""
    dtype, parts = str(inputs[0].dtype), part_count(inputs[0].shape[0])
    first = bridge.jax_kernel(add_up_warp(dtype), **blocks(parts), output_dims=parts, enable_backward=True)
    second = bridge.jax_kernel(add_up_parts_warp(dtype), **blocks(1, PARTS_THREADS), output_dims=1)
    return lambda x: second(*first(x))
