"""The kernel of matvec in Triton: a program of one warp for each row, which adds up block by block."""

from suites.backends.triton import jit, tl, widened


@jit
def matvec_triton(A, x, out, columns, BLOCK: "tl.constexpr"):
    row = tl.program_id(0).to(tl.int64)
    sums = widened(tl.zeros((BLOCK,), out.dtype.element_ty))
    for first in range(0, columns, BLOCK):
        j = first + tl.arange(0, BLOCK)
        inside = j < columns
        sums += widened(tl.load(A + row * columns + j, inside, other=0)) * tl.load(x + j, inside, other=0)
    tl.store(out + row, tl.sum(sums, axis=0))


def launch(inputs, outs):
    rows, columns = inputs[0].shape
    block = min(512, 1 << max(columns - 1, 5).bit_length())
    return {"grid": rows, "columns": columns, "BLOCK": block, "num_warps": 1}
