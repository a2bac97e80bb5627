"""The kernel of matvec in cuTile: a block for each row, which adds up tile by tile."""

from suites.backends.cutile import ct, kernel, widened


@kernel
def matvec_cutile(A, x, out, BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    sums = widened(ct.zeros((1, BLOCK), out.dtype))
    for k in range(ct.cdiv(A.shape[1], BLOCK)):
        row = widened(ct.load(A, (i, k), (1, BLOCK), padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
        sums += row * widened(ct.load(x, k, BLOCK, padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    ct.store(out, i, ct.astype(ct.sum(sums, axis=1), out.dtype))


def launch(inputs, outs):
    rows, columns = inputs[0].shape
    return {"grid": rows, "BLOCK": min(1024, 1 << max(columns - 1, 5).bit_length())}
