"""Kernels of sum in cuTile: the first adds up a part of x in each block, the second adds up the parts."""

import jax

from suites.backends.cutile import ct, kernel, launched, widened
from suites.kernels.half_precision import wide

BLOCKS = 1024


@kernel
def sum_cutile(x, out, BLOCK: "ct.Constant[int]"):
    total = widened(ct.zeros((BLOCK,), x.dtype))
    for k in range(ct.bid(0), ct.cdiv(x.shape[0], BLOCK), ct.num_blocks(0)):
        total += widened(ct.load(x, k, BLOCK, padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    ct.scatter(out, ct.bid(0), ct.astype(ct.sum(total), out.dtype))


def total_cutile(inputs, outs, blocks=BLOCKS, **chosen):
    chosen = chosen or {"BLOCK": 2048}
    parts = max(1, min(blocks, -(-inputs[0].size // chosen["BLOCK"])))
    sums = jax.ShapeDtypeStruct((parts,), wide(inputs[0].dtype))
    first = launched(sum_cutile, sums, grid=parts, **chosen)
    second = launched(sum_cutile, outs[0], grid=1, BLOCK=1024)
    return lambda x: second(first(x))
