"""The kernel of csr_matvec in cuTile: a block for some rows, which takes 32 elements of each at a time."""

from suites.backends.cutile import ct, kernel, widened

ROWS, BLOCK = 4, 32


@kernel
def csr_matvec_cutile(data, indices, indptr, x, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    rows = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)
    first, end = ct.gather(indptr, rows), ct.gather(indptr, rows + 1)
    k = first[:, None] + ct.arange(BLOCK, dtype=ct.int32)[None, :]
    sums = widened(ct.zeros((ROWS, BLOCK), out.dtype))
    for _ in range(ct.cdiv(ct.max(end - first), BLOCK)):
        inside = k < end[:, None]
        columns = ct.gather(indices, k, mask=inside)
        sums += widened(ct.gather(data, k, mask=inside)) * widened(ct.gather(x, columns, mask=inside))
        k += BLOCK
    ct.scatter(out, rows, ct.astype(ct.sum(sums, axis=1), out.dtype))


def launch(inputs, outs, rows=ROWS, block=BLOCK):
    return {"grid": -(-outs[0].size // rows), "ROWS": rows, "BLOCK": block, "hints": {"occupancy": 16}}
