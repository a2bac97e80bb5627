"""The kernel of rotary in Warp."""

import functools

from suites.backends.warp import scalar, wp


@functools.cache
def rotary_warp(dtype):
    """A thread for each pair."""
    element = scalar(dtype)

    @wp.kernel(module="unique")
    def rotary(
        x: wp.array3d(dtype=element),
        cos: wp.array2d(dtype=element),
        sin: wp.array2d(dtype=element),
        out: wp.array3d(dtype=element),
    ):
        i, h, j = wp.tid()
        half = cos.shape[1]
        out[i, h, j] = x[i, h, j] * cos[i, j] - x[i, h, j + half] * sin[i, j]
        out[i, h, j + half] = x[i, h, j + half] * cos[i, j] + x[i, h, j] * sin[i, j]

    return rotary


def launch(inputs, outs):
    length, heads, width = outs[0].shape
    return {"launch_dims": (length, heads, width // 2), "output_dims": outs[0].shape}
