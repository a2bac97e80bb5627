"""The kernel of quantise in cuTile: a block for some rows, which it reads once."""

from suites.backends.cutile import ct, kernel, widened
from suites.kernels.rows_launch import cutile_rows_launch
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@kernel
def quantise_cutile(x, quantised, scales, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    row = widened(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    largest = ct.max(ct.abs(row), axis=1, keepdims=True)
    scale = ct.maximum(largest, TINY) / LEVELS
    ct.store(scales, i, scale.reshape((ROWS,)), allow_tma=False)
    at_ones = 1.5 * 2**52 if row.dtype == ct.float64 else 1.5 * 2**23  # next to it, numbers are whole
    mode = None if row.dtype == ct.float64 else ct.RoundingMode.FULL
    rounded = ct.truediv(row, scale, rounding_mode=mode) + at_ones - at_ones
    ct.store(quantised, (i, 0), ct.astype(rounded, ct.int8), allow_tma=False)


def launch(inputs, outs, **chosen):
    return cutile_rows_launch(inputs, outs, half_rows=2, **chosen)
