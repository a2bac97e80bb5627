"""The kernel of quantise in cuTile: a block for some rows, which it reads once."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@kernel
def quantise_cutile(x, quantised, scales, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    wide = ct.float64 if x.dtype == ct.float64 else ct.float32
    i = ct.bid(0)
    row = ct.astype(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO), wide)
    largest = ct.max(ct.abs(row), axis=1, keepdims=True)
    scale = ct.astype(ct.maximum(largest, TINY) / LEVELS, scales.dtype)
    ct.store(scales, i, scale.reshape((ROWS,)))
    scaled = row / ct.astype(scale, wide)
    below = ct.floor(scaled)
    up = (scaled - below > 0.5) | ((scaled - below == 0.5) & (ct.floor(below * 0.5) * 2 != below))
    ct.store(quantised, (i, 0), ct.astype(ct.where(up, below + 1, below), ct.int8))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, **chosen)
