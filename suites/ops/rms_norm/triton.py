"""The kernel of rms_norm in Triton: a program for some rows."""

from suites.backends.triton import jit, tl, widened
from suites.kernels.rows_launch import triton_rows_launch
from suites.ops.rms_norm.numba_cpu import EPSILON


@jit
def rms_norm_triton(
    x, weight, out, rows, columns, EPSILON: "tl.constexpr", ROWS: "tl.constexpr", BLOCK: "tl.constexpr"
):
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64) * columns + j, (i < rows) & (j < columns)
    row = widened(tl.load(x + at, inside, other=0))
    mean = tl.sum(row * row, axis=1) / columns.to(row.dtype)
    scaled = row * (1 / tl.sqrt(mean + EPSILON))[:, None] * tl.load(weight + j, j < columns)
    tl.store(out + at, scaled, inside)


def launch(inputs, outs, **chosen):
    return {"EPSILON": EPSILON, **triton_rows_launch(outs[0].shape, **chosen)}
