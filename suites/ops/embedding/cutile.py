"""The kernel of embedding in cuTile: a block for a part of some rows."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch


@kernel
def embedding_cutile(table, indices, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i, j = ct.bid(0), ct.bid(1)
    source = ct.load(indices, i, ROWS)[:, None]
    columns = j * BLOCK + ct.arange(BLOCK, dtype=ct.int32)[None, :]
    ct.store(out, (i, j), ct.gather(table, (source, columns)))


def launch(inputs, outs, **chosen):
    return rows_launch(outs[0].shape, most=4096, **chosen)
