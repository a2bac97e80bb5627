"""The kernel of rotary in cuTile: a block for some heads of some positions."""

from suites.backends.cutile import ct, kernel


@kernel
def rotary_cutile(
    x, cos, sin, out, HALF: "ct.Constant[int]", ROWS: "ct.Constant[int]", HEADS: "ct.Constant[int]",
    BLOCK: "ct.Constant[int]",
):  # fmt: skip
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    i, h, shape = ct.bid(0), ct.bid(1), (ROWS, HEADS, BLOCK)
    first, second = out.slice(2, 0, HALF), out.slice(2, HALF, 2 * HALF)
    a = ct.astype(ct.load(x.slice(2, 0, HALF), (i, h, 0), shape), wide)
    b = ct.astype(ct.load(x.slice(2, HALF, 2 * HALF), (i, h, 0), shape), wide)
    c = ct.astype(ct.load(cos, (i, 0), (ROWS, BLOCK)), wide).reshape((ROWS, 1, BLOCK))
    s = ct.astype(ct.load(sin, (i, 0), (ROWS, BLOCK)), wide).reshape((ROWS, 1, BLOCK))
    ct.store(first, (i, h, 0), ct.astype(a * c - b * s, out.dtype))
    ct.store(second, (i, h, 0), ct.astype(b * c + a * s, out.dtype))


def launch(inputs, outs, rows=0, heads=0):
    length, all_heads, width = outs[0].shape
    block = 1 << max(width // 2 - 1, 0).bit_length()
    heads = heads or min(32, 1 << max(all_heads - 1, 0).bit_length())
    rows = rows or max(1, 2048 // (heads * block))
    grid = (-(-length // rows), -(-all_heads // heads)) if outs[0].size else 0
    return {"grid": grid, "HALF": width // 2, "ROWS": rows, "HEADS": heads, "BLOCK": block}
