"""The kernel of stencil in Triton: a program for each block of a row."""

from suites.backends.triton import jit, tl, widened

BLOCK = 512


@jit
def stencil_triton(u, rate, out, rows, columns, BLOCK: "tl.constexpr"):
    i, j = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = i.to(tl.int64) * columns + j
    inner = (i > 0) & (i < rows - 1) & (j > 0) & (j < columns - 1)
    own = widened(tl.load(u + at, j < columns))
    across = widened(tl.load(u + at - columns, inner, other=0)) + tl.load(u + at + columns, inner, other=0)
    along = widened(tl.load(u + at - 1, inner, other=0)) + tl.load(u + at + 1, inner, other=0)
    new = own + tl.load(rate) * (across + along - 4 * own)
    tl.store(out + at, tl.where(inner, new, own), j < columns)


def launch(inputs, outs):
    rows, columns = outs[0].shape
    grid = (-(-columns // BLOCK), rows) if outs[0].size else 0
    return {"grid": grid, "rows": rows, "columns": columns, "BLOCK": BLOCK}
