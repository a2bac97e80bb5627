"""The kernel of rotary in Triton: a program for some rows, which are heads of positions."""

from suites.backends.triton import jit, tl, widened
from suites.kernels.rows_launch import triton_rows_launch


@jit
def rotary_triton(x, cos, sin, out, rows, columns, heads, ROWS: "tl.constexpr", BLOCK: "tl.constexpr"):
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (i < rows) & (j < columns)
    at, angle = i.to(tl.int64) * (2 * columns) + j, (i // heads).to(tl.int64) * columns + j
    a, b = widened(tl.load(x + at, inside)), widened(tl.load(x + at + columns, inside))
    c, s = widened(tl.load(cos + angle, inside)), widened(tl.load(sin + angle, inside))
    tl.store(out + at, a * c - b * s, inside)
    tl.store(out + at + columns, b * c + a * s, inside)


def launch(inputs, outs, elements=512, **chosen):
    length, heads, width = outs[0].shape
    return {"heads": heads, **triton_rows_launch((length * heads, width // 2), elements=elements, **chosen)}
