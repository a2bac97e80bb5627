"""The kernel of quantise in cuTile: a block for some rows, which it reads once."""

from suites.backends.cutile import ct, kernel, widened
from suites.kernels.rows_launch import rows_launch
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@kernel
def quantise_cutile(x, quantised, scales, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    row = widened(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO))
    largest = ct.max(ct.abs(row), axis=1, keepdims=True)
    scale = ct.maximum(largest, TINY) / LEVELS
    ct.store(scales, i, scale.reshape((ROWS,)))
    scaled = row / scale
    below = ct.floor(scaled)
    up = (scaled - below > 0.5) | ((scaled - below == 0.5) & (ct.floor(below * 0.5) * 2 != below))
    ct.store(quantised, (i, 0), ct.astype(ct.where(up, below + 1, below), ct.int8))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, **chosen)
