"""The kernel of embedding in cuTile: a block for a part of some rows."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch


@kernel
def embedding_cutile(table, indices, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)[:, None]
    j = ct.bid(1) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)[None, :]
    ct.scatter(out, (i, j), ct.gather(table, (ct.gather(indices, i), j)))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, most=1024, **chosen)
