"""The kernel of matvec in cuTile: a block for some rows, which adds up tile by tile."""

from suites.backends.cutile import ct, kernel, widened

ROWS, BLOCK = 2, 1024


@kernel
def matvec_cutile(A, x, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    sums = widened(ct.zeros((ROWS, BLOCK), out.dtype))
    for k in range(ct.cdiv(A.shape[1], BLOCK)):
        part = widened(ct.load(A, (i, k), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
        sums += part * widened(ct.load(x, k, BLOCK, padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    ct.store(out, i, ct.astype(ct.sum(sums, axis=1), out.dtype), allow_tma=False)


def launch(inputs, outs, rows=ROWS, block=BLOCK, hints=None):
    height, width = inputs[0].shape
    block = min(block, 1 << max(width - 1, 5).bit_length())
    return {"grid": -(-height // rows), "ROWS": rows, "BLOCK": block, **({"hints": hints} if hints else {})}
