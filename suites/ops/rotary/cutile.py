"""The kernel of rotary in cuTile: a block for some rows, which are heads of positions."""

from suites.backends.cutile import ct, kernel, widened
from suites.kernels.rows_launch import rows_launch


@kernel
def rotary_cutile(x, cos, sin, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    row = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)[:, None]
    i, head = row // x.shape[1], row % x.shape[1]
    j, half = ct.arange(BLOCK, dtype=ct.int32)[None, :], cos.shape[1]
    first = j < half
    a = widened(ct.gather(x, (i, head, j), mask=first))
    b = widened(ct.gather(x, (i, head, j + half)))
    c, s = widened(ct.gather(cos, (i, j))), widened(ct.gather(sin, (i, j)))
    ct.scatter(out, (i, head, j), ct.astype(a * c - b * s, out.dtype), mask=first)
    ct.scatter(out, (i, head, j + half), ct.astype(b * c + a * s, out.dtype))


def launch(inputs, outs, elements=1024, **chosen):
    length, heads, width = outs[0].shape
    return rows_launch((length * heads, width // 2), elements=elements, **chosen)
