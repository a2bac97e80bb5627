"""The kernel of stencil in cuTile: a block of cells of a row."""

from suites.backends.cutile import ct, kernel, widened

BLOCK = 1024


@kernel
def stencil_cutile(u, rate, out, BLOCK: "ct.Constant[int]"):
    i, j = ct.bid(1), ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    own = widened(ct.gather(u, (i, j)))
    across = widened(ct.gather(u, (i - 1, j))) + widened(ct.gather(u, (i + 1, j)))
    along = widened(ct.gather(u, (i, j - 1))) + widened(ct.gather(u, (i, j + 1)))
    inner = (i > 0) & (i < u.shape[0] - 1) & (j > 0) & (j < u.shape[1] - 1)
    new = ct.where(inner, own + widened(ct.gather(rate, 0)) * (across + along - 4 * own), own)
    ct.scatter(out, (i, j), ct.astype(new, out.dtype))


def launch(inputs, outs):
    rows, columns = outs[0].shape
    return {"grid": (-(-columns // BLOCK), rows) if outs[0].size else 0, "BLOCK": BLOCK}
