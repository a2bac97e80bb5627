"""The kernel of rotary in Triton: a program for some rows, which are heads of positions."""

from suites.backends.triton import jit, tl
from suites.kernels.rows_launch import triton_rows_launch


@jit
def rotary_triton(x, cos, sin, out, rows, columns, heads, ROWS: "tl.constexpr", BLOCK: "tl.constexpr"):
    wide: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (i < rows) & (j < columns)
    at, angle = i.to(tl.int64) * (2 * columns) + j, (i // heads).to(tl.int64) * columns + j
    a, b = tl.load(x + at, inside).to(wide), tl.load(x + at + columns, inside).to(wide)
    c, s = tl.load(cos + angle, inside).to(wide), tl.load(sin + angle, inside).to(wide)
    tl.store(out + at, a * c - b * s, inside)
    tl.store(out + at + columns, b * c + a * s, inside)


def launch(inputs, outs, **chosen):
    length, heads, width = outs[0].shape
    return {"heads": heads, **triton_rows_launch((length * heads, width // 2), **chosen)}
