"""The kernel of matmul in Triton: a program for each tile of out."""

from suites.backends.triton import jit, tl, widened

SIDE = 64
DEPTH = 32


@jit
def matmul_triton(A, B, out, rows, depth, columns, SIDE: "tl.constexpr", DEPTH: "tl.constexpr"):
    i = (tl.program_id(1) * SIDE + tl.arange(0, SIDE))[:, None].to(tl.int64)
    j = (tl.program_id(0) * SIDE + tl.arange(0, SIDE))[None, :].to(tl.int64)
    total = widened(tl.zeros((SIDE, SIDE), out.dtype.element_ty))
    for first in range(0, depth, DEPTH):
        across, down = first + tl.arange(0, DEPTH)[None, :], first + tl.arange(0, DEPTH)[:, None]
        a = tl.load(A + i * depth + across, (i < rows) & (across < depth), other=0)
        b = tl.load(B + down * columns + j, (down < depth) & (j < columns), other=0)
        total = tl.dot(a, b, total, input_precision="ieee", out_dtype=total.dtype)
    tl.store(out + i * columns + j, total, (i < rows) & (j < columns))


def launch(inputs, outs):
    (rows, depth), (_, columns) = inputs[0].shape, inputs[1].shape
    grid = (-(-columns // SIDE), -(-rows // SIDE)) if outs[0].size else 0
    return {"grid": grid, "rows": rows, "depth": depth, "columns": columns, "SIDE": SIDE, "DEPTH": DEPTH}
