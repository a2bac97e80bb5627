"""The kernel of softmax in cuTile: a block for some rows."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch


@kernel
def softmax_cutile(x, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    i = ct.bid(0)
    row = ct.astype(ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.NEG_INF), wide)
    weights = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(out, (i, 0), ct.astype(weights / ct.sum(weights, axis=1, keepdims=True), out.dtype))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, **chosen)
