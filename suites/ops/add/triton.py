"""The kernel of add in Triton."""

from suites.backends.triton import jit, tl

BLOCK = 1024


@jit
def add_triton(x, y, out, size, BLOCK: "tl.constexpr"):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


def launch(inputs, outs):
    return {"grid": -(-outs[0].size // BLOCK), "size": outs[0].size, "BLOCK": BLOCK}
