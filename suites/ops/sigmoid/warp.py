"""Kernels of sigmoid in Warp."""

import functools

from suites.kernels.warp.blocks import quotient as warp_quotient
from suites.kernels.warp.blocks import real, scalar, wp
from suites.kernels.warp.streams import stream


@functools.cache
def sigmoid_warp(dtype):
    element, wider = scalar(dtype), real(dtype)

    @wp.kernel(module="unique")
    def sigmoid(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = element(wider(1) / (wider(1) + wp.exp(-wider(x[i]))))

    return sigmoid


@functools.cache
def sigmoid_tiles(dtype):
    element = scalar(dtype)

    @wp.func
    def logistic_of(x: element):
        return element(1) / (element(1) + wp.exp(-x))

    @wp.func
    def logistic_in_float32(x: element):
        return element(warp_quotient(wp.float32(1), wp.float32(1) + wp.exp(-wp.float32(x))))

    return stream(logistic_of if dtype == "float64" else logistic_in_float32, dtype, 1)
