"""The kernel of rms_norm in cuTile: a block for some rows."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch
from suites.ops.rms_norm.numba_cpu import EPSILON


@kernel
def rms_norm_cutile(x, weight, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    i = ct.bid(0)
    row = ct.astype(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO), wide)
    mean = ct.sum(row * row, axis=1, keepdims=True) / ct.astype(x.shape[1], wide)
    scaled = row * (1 / ct.sqrt(mean + EPSILON)) * ct.astype(ct.load(weight, 0, BLOCK), wide)
    ct.store(out, (i, 0), ct.astype(scaled, out.dtype))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, **chosen)
