"""The kernel of attention in cuTile: a block for a tile of queries of a head, which takes the keys tile by tile."""

import math

from suites.backends.cutile import ct, kernel, widened

BLOCK = 32


@kernel
def attention_cutile(q, k, v, out, SCALE: "ct.Constant[float]", BLOCK: "ct.Constant[int]", WIDTH: "ct.Constant[int]"):
    first, head = ct.bid(0), ct.bid(1)
    shape, zero, places = (BLOCK, 1, WIDTH), ct.PaddingMode.ZERO, ct.arange(BLOCK, dtype=ct.int32)
    queries = ct.load(q, (first, head, 0), shape, padding_mode=zero).reshape((BLOCK, WIDTH))
    i = first * BLOCK + places[:, None]
    largest, total = widened(ct.full((BLOCK, 1), -math.inf, out.dtype)), widened(ct.zeros((BLOCK, 1), out.dtype))
    sums = widened(ct.zeros((BLOCK, WIDTH), out.dtype))
    for tile in range(first + 1):
        keys = ct.load(k, (tile, head, 0), shape, padding_mode=zero).reshape((BLOCK, WIDTH))
        values = ct.load(v, (tile, head, 0), shape, padding_mode=zero).reshape((BLOCK, WIDTH))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((BLOCK, BLOCK), sums.dtype)) * SCALE
        j = tile * BLOCK + places[None, :]
        scores = ct.where((j <= i) & (j < k.shape[0]), scores, -math.inf)
        peak = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True))
        fade, weights = ct.exp(largest - peak), ct.exp(scores - peak)
        total = total * fade + ct.sum(weights, axis=1, keepdims=True)
        sums = ct.mma(ct.astype(weights, values.dtype), values, sums * fade)
        largest = peak
    ct.store(out, (first, head, 0), ct.astype(sums / total, out.dtype).reshape(shape))


def launch(inputs, outs):
    length, heads, width = outs[0].shape
    return {
        "grid": (-(-length // BLOCK), heads) if outs[0].size else 0,
        "SCALE": 1 / math.sqrt(max(width, 1)), "BLOCK": BLOCK, "WIDTH": max(16, 1 << (width - 1).bit_length()),
    }  # fmt: skip
