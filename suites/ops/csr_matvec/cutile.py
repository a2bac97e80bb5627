"""The kernel of csr_matvec in cuTile: a block for each row."""

from suites.backends.cutile import ct, kernel, widened

BLOCK = 32


@kernel
def csr_matvec_cutile(data, indices, indptr, x, out, BLOCK: "ct.Constant[int]"):
    row = ct.bid(0)
    end = ct.gather(indptr, row + 1)
    sums = widened(ct.zeros((BLOCK,), out.dtype))
    for first in range(ct.gather(indptr, row), end, BLOCK):
        k = first + ct.arange(BLOCK, dtype=ct.int32)
        columns = ct.gather(indices, k, mask=k < end)
        sums += widened(ct.gather(data, k, mask=k < end)) * widened(ct.gather(x, columns, mask=k < end))
    ct.scatter(out, row, ct.astype(ct.sum(sums), out.dtype))


def launch(inputs, outs):
    return {"grid": outs[0].size, "BLOCK": BLOCK}
