"""The kernel of rms_norm in Triton: a program for some rows."""

from suites.backends.triton import jit, tl
from suites.kernels.rows_launch import triton_rows_launch
from suites.ops.rms_norm.numba_cpu import EPSILON


@jit
def rms_norm_triton(
    x, weight, out, rows, columns, EPSILON: "tl.constexpr", ROWS: "tl.constexpr", BLOCK: "tl.constexpr"
):
    wide: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64) * columns + j, (i < rows) & (j < columns)
    row = tl.load(x + at, inside, other=0).to(wide)
    mean = tl.sum(row * row, axis=1) / columns.to(wide)
    scaled = row * (1 / tl.sqrt(mean + EPSILON))[:, None] * tl.load(weight + j, j < columns).to(wide)
    tl.store(out + at, scaled, inside)


def launch(inputs, outs, **chosen):
    return {"EPSILON": EPSILON, **triton_rows_launch(outs[0].shape, **chosen)}
