"""The kernel of depthwise_conv in Warp."""

import functools

from suites.kernels.warp.blocks import real, scalar, wp


@functools.cache
def depthwise_conv_warp(dtype):
    """A thread for each element."""
    element, wider = scalar(dtype), real(dtype)
    matrix = wp.array2d(dtype=element)

    # The loop is in a function of its own: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def convolved(x: matrix, taps: matrix, c: int, t: int):
        total = wider(0)
        for back in range(wp.min(taps.shape[1], t + 1)):
            total += wider(taps[c, taps.shape[1] - 1 - back]) * wider(x[c, t - back])
        return total

    @wp.kernel(module="unique")
    def depthwise_conv(x: matrix, taps: matrix, out: matrix):
        c, t = wp.tid()
        out[c, t] = element(convolved(x, taps, c, t))

    return depthwise_conv


def launch(inputs, outs):
    return {"launch_dims": outs[0].shape, "output_dims": outs[0].shape, "enable_backward": True}
