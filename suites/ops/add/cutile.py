"""The kernel of add in cuTile."""

from suites.backends.cutile import ct, kernel

BLOCK = 1024


@kernel
def add_cutile(x, y, out, BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, BLOCK) + ct.load(y, i, BLOCK))


def launch(inputs, outs):
    return {"grid": -(-outs[0].size // BLOCK), "BLOCK": BLOCK}
