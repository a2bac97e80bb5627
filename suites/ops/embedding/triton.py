"""The kernel of embedding in Triton: a program for a block of some rows."""

from suites.backends.triton import jit, tl
from suites.kernels.rows_launch import triton_rows_launch


@jit
def embedding_triton(table, indices, out, rows, columns, ROWS: "tl.constexpr", BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (i[:, None] < rows) & (j < columns)
    source = tl.load(indices + i, i < rows, other=0).to(tl.int64)[:, None]
    tl.store(out + i.to(tl.int64)[:, None] * columns + j, tl.load(table + source * columns + j, inside), inside)


def launch(inputs, outs, **chosen):
    return triton_rows_launch(outs[0].shape, most=1024, **chosen)
