"""The kernel of attention in Triton: a program for a block of queries of a head, which takes the keys in blocks."""

import math

from suites.backends.triton import jit, libdevice, tl, widened

BLOCK = 32


@jit
def attention_triton(
    q, k, v, out, length, heads, width, SCALE: "tl.constexpr", BLOCK: "tl.constexpr", WIDTH: "tl.constexpr"
):
    i, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    rows = (i[:, None].to(tl.int64) * heads + tl.program_id(1)) * width + d[None, :]
    own = (i[:, None] < length) & (d[None, :] < width)
    queries = tl.load(q + rows, own, other=0)
    sums = widened(tl.zeros((BLOCK, WIDTH), out.dtype.element_ty))
    largest, total = tl.full((BLOCK,), -float("inf"), sums.dtype), tl.zeros((BLOCK,), sums.dtype)
    for first in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        j = first + tl.arange(0, BLOCK)
        others = (j[:, None].to(tl.int64) * heads + tl.program_id(1)) * width + d[None, :]
        inside = (j[:, None] < length) & (d[None, :] < width)
        keys, values = tl.load(k + others, inside, other=0), tl.load(v + others, inside, other=0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee", out_dtype=sums.dtype) * SCALE
        scores = tl.where((j[None, :] <= i[:, None]) & (j[None, :] < length), scores, -float("inf"))
        peak = tl.maximum(largest, tl.max(scores, axis=1))
        fade, weights = libdevice.exp(largest - peak), libdevice.exp(scores - peak[:, None])
        total = total * fade + tl.sum(weights, axis=1)
        weights = weights.to(values.dtype)  # as the reference rounds them: a tensor core multiplies 16 bits
        sums = sums * fade[:, None] + tl.dot(weights, values, input_precision="ieee", out_dtype=sums.dtype)
        largest = peak
    tl.store(out + rows, sums / total[:, None], own)


def launch(inputs, outs):
    length, heads, width = outs[0].shape
    return {
        "grid": (-(-length // BLOCK), heads) if outs[0].size else 0,
        "length": length, "heads": heads, "width": width, "SCALE": 1 / math.sqrt(max(width, 1)),
        "BLOCK": BLOCK, "WIDTH": max(16, 1 << (width - 1).bit_length()),
    }  # fmt: skip
