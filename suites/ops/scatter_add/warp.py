"""Kernels of scatter_add in Warp."""

import functools

from suites.kernels.warp.blocks import scalar, wp


@functools.cache
def scatter_add_warp(dtype):
    real = scalar(dtype)

    @wp.kernel(module="unique")
    def scatter_add(
        values: wp.array(dtype=real),
        targets: wp.array(dtype=wp.int32),
        scale: wp.array(dtype=real),
        acc: wp.array(dtype=real),
    ):
        i = wp.tid()
        wp.atomic_add(acc, targets[i], values[i] * scale[0])

    return scatter_add
