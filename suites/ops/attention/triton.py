"""The kernel of attention in Triton: a program for a block of queries of a head, which takes the keys block by block.

As in flash attention 2, keys that all queries of a block see need no mask, and keys that none sees are not read.
"""

import math

from suites.backends import triton as blocks
from suites.backends.triton import jit, tl

WIDE = {"QUERIES": 32, "KEYS": 32, "num_warps": 4, "num_stages": 2}
HALF = {"QUERIES": 64, "KEYS": 64, "num_warps": 4, "num_stages": 3}
NARROW = {"QUERIES": 64, "KEYS": 128, "num_warps": 4, "num_stages": 2}
"""Of 16 bits, for at most 64 features."""


@jit
def _keys(
    state, queries, k, v, i, head, first, end, length, row, width, scale, MASKED: "tl.constexpr",
    KEYS: "tl.constexpr", WIDTH: "tl.constexpr", DESCRIBED: "tl.constexpr",
):  # fmt: skip
    sums, total, largest = state
    wide: tl.constexpr = sums.dtype
    for j in range(first, end, KEYS):
        keys = blocks.load(k, j, head * width, length, (head + 1) * width, row, KEYS, WIDTH, DESCRIBED)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee", out_dtype=wide)
        if MASKED:
            scores = tl.where(i[:, None] >= (j + tl.arange(0, KEYS))[None, :], scores, -float("inf"))
        peak = tl.maximum(largest, scale * tl.max(scores, axis=1))
        weights, fade = tl.exp2(scores * scale - peak[:, None]), tl.exp2(largest - peak)
        values = blocks.load(v, j, head * width, length, (head + 1) * width, row, KEYS, WIDTH, DESCRIBED)
        weighed = weights.to(values.dtype)
        sums = tl.dot(weighed, values, sums * fade[:, None], input_precision="ieee", out_dtype=wide)
        total, largest = total * fade + tl.sum(weights, axis=1), peak
    return sums, total, largest


@jit
def attention_triton(
    q, k, v, out, length, heads, group, width, SCALE: "tl.constexpr", QUERIES: "tl.constexpr", KEYS: "tl.constexpr",
    WIDTH: "tl.constexpr", DESCRIBED: "tl.constexpr",
):  # fmt: skip
    wide: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    head, shared = tl.program_id(1), tl.program_id(1) // group
    row, few = heads * width, heads // group * width
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * QUERIES  # the longest work begins first
    source = blocks.matrix(q, length, row, row, QUERIES, WIDTH, DESCRIBED)
    target = blocks.matrix(out, length, row, row, QUERIES, WIDTH, DESCRIBED)
    k = blocks.matrix(k, length, few, few, KEYS, WIDTH, DESCRIBED)
    v = blocks.matrix(v, length, few, few, KEYS, WIDTH, DESCRIBED)
    queries = blocks.load(source, first, head * width, length, (head + 1) * width, row, QUERIES, WIDTH, DESCRIBED)
    i, end = first + tl.arange(0, QUERIES), min(first + QUERIES, length)
    state = tl.zeros((QUERIES, WIDTH), wide), tl.zeros((QUERIES,), wide), tl.full((QUERIES,), -float("inf"), wide)
    seen = first // KEYS * KEYS
    state = _keys(state, queries, k, v, i, shared, 0, seen, length, few, width, SCALE, False,
                  KEYS, WIDTH, DESCRIBED)  # fmt: skip
    sums, total, _ = _keys(state, queries, k, v, i, shared, seen, end, length, few, width, SCALE, True,
                           KEYS, WIDTH, DESCRIBED)  # fmt: skip
    block = (sums / total[:, None]).to(out.dtype.element_ty)
    blocks.store(target, block, first, head * width, length, (head + 1) * width, row, QUERIES, WIDTH, DESCRIBED)


def launch(inputs, outs, **chosen):
    """How to launch the kernel, by default with the fastest choice for the dtype and size."""
    length, heads, width = outs[0].shape
    half = outs[0].dtype.itemsize == 2
    chosen = chosen or ((NARROW if width <= 64 else HALF) if half else WIDE)
    wide = max(16, 1 << (width - 1).bit_length())
    return {
        "grid": (-(-length // chosen["QUERIES"]), heads) if outs[0].size else 0,
        "length": length, "heads": heads, "group": heads // max(inputs[1].shape[1], 1), "width": width,
        "SCALE": math.log2(math.e) / math.sqrt(max(width, 1)), "WIDTH": wide,
        "DESCRIBED": half and wide == width and all(map(blocks.has_descriptors, inputs)),
        **chosen,
    }  # fmt: skip
