"""The kernel of attention in cuTile: a block for a tile of queries of a head, which takes the keys tile by tile.

As in flash attention 2, keys that all queries of a tile see need no mask, and keys that none sees are not read.
"""

import math

from suites.backends.cutile import ct, kernel

WIDE = {"QUERIES": 32, "KEYS": 32}
HALF = {"QUERIES": 128, "KEYS": 128, "hints": {"num_worker_warps": 8}}


def _keys(state, queries, k, v, i, head, first, end, scale, MASKED, KEYS, WIDTH):
    """The sums, their weight and the largest score after the tiles of keys from first to end."""
    sums, total, largest = state
    flushed = sums.dtype == ct.float32  # a weight that small is nothing beside the largest, which is 1
    shape, zero = (KEYS, 1, WIDTH), ct.PaddingMode.ZERO
    for tile in range(first, end):
        keys = ct.load(k, (tile, head, 0), shape, padding_mode=zero).reshape((KEYS, WIDTH))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((queries.shape[0], KEYS), sums.dtype))
        if MASKED:
            scores = ct.where(i >= tile * KEYS + ct.arange(KEYS, dtype=ct.int32)[None, :], scores, -math.inf)
        peak = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - peak, flush_to_zero=flushed)
        fade = ct.exp2(largest - peak, flush_to_zero=flushed)
        total = total * fade + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (tile, head, 0), shape, padding_mode=zero).reshape((KEYS, WIDTH))
        sums = ct.mma(ct.astype(weights, v.dtype), values, sums * fade)
        largest = peak
    return sums, total, largest


@kernel
def attention_cutile(
    q, k, v, out, group, SCALE: "ct.Constant[float]", QUERIES: "ct.Constant[int]", KEYS: "ct.Constant[int]",
    WIDTH: "ct.Constant[int]",
):  # fmt: skip
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    own, head = ct.num_blocks(0) - 1 - ct.bid(0), ct.bid(1)  # the longest work begins first
    shape, zero = (QUERIES, 1, WIDTH), ct.PaddingMode.ZERO
    queries = ct.load(q, (own, head, 0), shape, padding_mode=zero).reshape((QUERIES, WIDTH))
    i = own * QUERIES + ct.arange(QUERIES, dtype=ct.int32)[:, None]
    state = ct.zeros((QUERIES, WIDTH), wide), ct.zeros((QUERIES, 1), wide), ct.full((QUERIES, 1), -math.inf, wide)
    first, end = own * (QUERIES // KEYS), ct.cdiv(min((own + 1) * QUERIES, k.shape[0]), KEYS)
    state = _keys(state, queries, k, v, i, head // group, 0, first, SCALE, False, KEYS, WIDTH)
    sums, total, _ = _keys(state, queries, k, v, i, head // group, first, end, SCALE, True, KEYS, WIDTH)
    ct.store(out, (own, head, 0), ct.astype(sums / total, out.dtype).reshape(shape))


def launch(inputs, outs, **chosen):
    """How to launch the kernel, by default with the fastest choice for the dtype and size.

    ``QUERIES`` is a multiple of ``KEYS``.
    """
    length, heads, width = outs[0].shape
    chosen = chosen or (HALF if outs[0].dtype.itemsize == 2 else WIDE)
    return {
        "grid": (-(-length // chosen["QUERIES"]), heads) if outs[0].size else 0,
        "group": heads // max(inputs[1].shape[1], 1), "SCALE": math.log2(math.e) / math.sqrt(max(width, 1)),
        "WIDTH": max(16, 1 << (width - 1).bit_length()), **chosen,
    }  # fmt: skip
