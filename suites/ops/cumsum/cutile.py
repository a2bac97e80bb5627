"""Kernels of cumsum in cuTile: the first adds up each tile, the second scans a tile and adds the sums before it."""

import jax

from suites.backends.cutile import ct, kernel, launched, widened
from suites.kernels.half_precision import wide

BLOCK = 4096


@kernel
def sums_cutile(x, sums, BLOCK: "ct.Constant[int]"):
    tile = ct.load(x, ct.bid(0), BLOCK, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    ct.scatter(sums, ct.bid(0), ct.sum(widened(tile)))


@kernel
def scan_cutile(x, sums, out, BLOCK: "ct.Constant[int]"):
    own, places = ct.bid(0), ct.arange(BLOCK, dtype=ct.int32)
    before = ct.zeros((BLOCK,), sums.dtype)
    for first in range(0, own, BLOCK):
        before += ct.gather(sums, first + places, mask=first + places < own)
    here = widened(ct.load(x, own, BLOCK, padding_mode=ct.PaddingMode.ZERO, allow_tma=False))
    ct.store(out, own, ct.astype(ct.sum(before) + ct.cumsum(here), out.dtype), allow_tma=False)


def cumsum_cutile(inputs, outs, **chosen):
    (out,) = outs
    chosen = chosen or {"BLOCK": BLOCK}
    blocks = -(-out.size // chosen["BLOCK"])
    sums = launched(sums_cutile, jax.ShapeDtypeStruct((blocks,), wide(out.dtype)), grid=blocks, **chosen)
    scan = launched(scan_cutile, out, grid=blocks, **chosen)
    return lambda x: scan(x, sums(x))
