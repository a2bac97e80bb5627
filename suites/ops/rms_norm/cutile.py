"""The kernel of rms_norm in cuTile: a block for some rows."""

from suites.backends.cutile import ct, kernel, widened
from suites.kernels.rows_launch import cutile_rows_launch
from suites.ops.rms_norm.numba_cpu import EPSILON


@kernel
def rms_norm_cutile(x, weight, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    row = widened(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    mean = ct.sum(row * row, axis=1, keepdims=True) / ct.astype(x.shape[1], row.dtype)
    scaled = row * (1 / ct.sqrt(mean + EPSILON)) * widened(ct.load(weight, 0, BLOCK, allow_tma=False))
    ct.store(out, (i, 0), ct.astype(scaled, out.dtype), allow_tma=False)


def launch(inputs, outs, **chosen):
    return cutile_rows_launch(inputs, outs, **chosen)
