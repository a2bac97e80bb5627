"""The kernel of softmax in Triton: a program for some rows. ``tl.exp`` loses digits far from zero."""

from suites.backends.triton import jit, libdevice, tl, widened
from suites.kernels.rows_launch import triton_rows_launch


@jit
def softmax_triton(x, out, rows, columns, ROWS: "tl.constexpr", BLOCK: "tl.constexpr"):
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64) * columns + j, (i < rows) & (j < columns)
    row = widened(tl.load(x + at, inside, other=-float("inf")))
    weights = libdevice.exp(row - tl.max(row, axis=1)[:, None])
    tl.store(out + at, weights / tl.sum(weights, axis=1)[:, None], inside)


def launch(inputs, outs, **chosen):
    return triton_rows_launch(outs[0].shape, **chosen)
