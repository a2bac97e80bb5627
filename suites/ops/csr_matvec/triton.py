"""The kernel of csr_matvec in Triton: a program for each row."""

from suites.backends.triton import jit, tl, widened

BLOCK = 32


@jit
def csr_matvec_triton(data, indices, indptr, x, out, BLOCK: "tl.constexpr"):
    row = tl.program_id(0)
    end = tl.load(indptr + row + 1)
    sums = widened(tl.zeros((BLOCK,), out.dtype.element_ty))
    for first in range(tl.load(indptr + row), end, BLOCK):
        k = first + tl.arange(0, BLOCK)
        columns = tl.load(indices + k, k < end, other=0)
        sums += widened(tl.load(data + k, k < end, other=0)) * tl.load(x + columns, k < end, other=0)
    tl.store(out + row, tl.sum(sums, axis=0))


def launch(inputs, outs):
    return {"grid": outs[0].size, "BLOCK": BLOCK, "num_warps": 1}
