"""The kernel of matmul in cuTile: a block for each tile of out."""

from suites.backends.cutile import ct, kernel, widened

SIDE = 64
DEPTH = 32


@kernel
def matmul_cutile(A, B, out, SIDE: "ct.Constant[int]", DEPTH: "ct.Constant[int]"):
    i, j = ct.bid(1), ct.bid(0)
    total = widened(ct.zeros((SIDE, SIDE), out.dtype))
    for k in range(ct.cdiv(A.shape[1], DEPTH)):
        a = ct.load(A, (i, k), (SIDE, DEPTH), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, (k, j), (DEPTH, SIDE), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(a, b, total)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


def launch(inputs, outs):
    rows, columns = outs[0].shape
    grid = (-(-columns // SIDE), -(-rows // SIDE)) if outs[0].size else 0
    return {"grid": grid, "SIDE": SIDE, "DEPTH": DEPTH}
