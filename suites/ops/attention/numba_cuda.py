"""The kernel of attention in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, kernel, wide_dtype, wide_number, widened
from suites.kernels.numba_cuda.warps import WARP, WARPS, largest_of_lanes, shuffle_from, sum_of_lanes

QUERIES = THREADS // WARP
"""Queries of a block: one for each warp."""

MOST = 128
"""The most features of a head."""


@kernel
def attention_cuda(q, k, v, out):
    """A warp has a query of a head, and takes 32 keys at a time: a key for each lane, then a feature for each lane.

    Shared memory holds the query and the sums. Each lane reads and writes its own features of the latter.
    """
    query = cuda.shared.array((QUERIES, MOST), wide_dtype(out))
    mine = cuda.shared.array((QUERIES, MOST), wide_dtype(out))
    unused = cuda.shared.array(WARPS, wide_dtype(out))  # the lanes of one warp need no slots
    length, width = np.uint64(q.shape[0]), np.uint64(q.shape[2])
    lane, warp, h = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y), np.uint64(cuda.blockIdx.y)
    own = np.uint64(cuda.blockIdx.x) * np.uint64(QUERIES) + warp
    shared = h * np.uint64(k.shape[1]) // np.uint64(q.shape[1])
    i = min(own, length - np.uint64(1))  # beyond the last query, warps repeat its work and write nothing
    nothing = wide_number(out, 0)
    d = lane
    while d < width:
        query[warp, d], mine[warp, d] = widened(q[i, h, d]), nothing
        d += np.uint64(WARP)
    cuda.syncthreads()
    scale = wide_number(out, 1) / math.sqrt(wide_number(out, q.shape[2]))
    largest, total = wide_number(out, -np.inf), nothing
    first = np.uint64(0)
    while first <= i:  # the same for all lanes of a warp
        j = first + lane
        score = wide_number(out, -np.inf)
        if j <= i:
            score = nothing
            for feature in range(width):
                score += query[warp, feature] * widened(k[j, shared, feature])
            score *= scale
        now = max(largest, largest_of_lanes(unused, score, WARP))
        fade, weight = math.exp(largest - now), math.exp(score - now)
        largest, total = now, total * fade + sum_of_lanes(unused, weight, WARP)
        d = lane
        while d < width:
            mine[warp, d] *= fade
            d += np.uint64(WARP)
        count = min(i + np.uint64(1) - first, np.uint64(WARP))
        for key in range(count):
            each = shuffle_from(weight, key)
            d = lane
            while d < width:
                mine[warp, d] += each * widened(v[first + np.uint64(key), shared, d])
                d += np.uint64(WARP)
        first += np.uint64(WARP)
    if own < length:
        d = lane
        while d < width:
            out[i, h, d] = mine[warp, d] / total
            d += np.uint64(WARP)


def launch(inputs, outs):
    length, heads, width = outs[0].shape
    if width > MOST:
        raise ValueError(f"attention: a head has {width} features, expected at most {MOST}")
    return {"grid": (-(-length // QUERIES), heads), "block": (WARP, QUERIES)}
