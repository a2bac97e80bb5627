"""The kernel of rotary in Warp."""

import functools

from suites.kernels.warp.blocks import real, scalar, wp


@functools.cache
def rotary_warp(dtype):
    """A thread for each pair."""
    element, wider = scalar(dtype), real(dtype)

    @wp.kernel(module="unique")
    def rotary(
        x: wp.array3d(dtype=element),
        cos: wp.array2d(dtype=element),
        sin: wp.array2d(dtype=element),
        out: wp.array3d(dtype=element),
    ):
        i, h, j = wp.tid()
        half = cos.shape[1]
        a, b = wider(x[i, h, j]), wider(x[i, h, j + half])
        c, s = wider(cos[i, j]), wider(sin[i, j])
        out[i, h, j] = element(a * c - b * s)
        out[i, h, j + half] = element(b * c + a * s)

    return rotary


def launch(inputs, outs):
    length, heads, width = outs[0].shape
    return {"launch_dims": (length, heads, width // 2), "output_dims": outs[0].shape}
