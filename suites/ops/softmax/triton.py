"""The kernel of softmax in Triton: a program for some rows. ``tl.exp`` loses digits far from zero."""

from suites.backends.triton import jit, libdevice, tl
from suites.kernels.rows_launch import triton_rows_launch


@jit
def softmax_triton(x, out, rows, columns, ROWS: "tl.constexpr", BLOCK: "tl.constexpr"):
    wide: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64) * columns + j, (i < rows) & (j < columns)
    row = tl.load(x + at, inside, other=-float("inf")).to(wide)
    weights = libdevice.exp(row - tl.max(row, axis=1)[:, None])
    tl.store(out + at, weights / tl.sum(weights, axis=1)[:, None], inside)


def launch(inputs, outs, **chosen):
    return triton_rows_launch(outs[0].shape, **chosen)
