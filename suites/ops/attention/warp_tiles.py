"""The kernel of attention in Warp's tiles, on the tensor cores of a GPU: a block for a tile of queries of a head.

It takes the keys tile by tile, as flash attention does. Keys that no query of the block sees are not read.
"""

import functools

import bridge
from suites.kernels.warp.blocks import blocks, kernel_with, real, scalar, wp

CHOICE = {"QUERIES": 64, "KEYS": 32, "threads": 128}


@functools.cache
def attention_tiles(dtype, width, WIDTH, QUERIES, KEYS):
    """The kernel for heads of ``width`` features, in tiles of WIDTH, which is no less."""
    element, wider = scalar(dtype), real(dtype)
    array, scale = wp.array3d(dtype=element), wider(width**-0.5)

    @wp.func
    def seen(score: wider, i: int, j: int, first: int):
        return wp.where(i >= first + j, score * scale, -wider(wp.inf))

    @wp.func
    def power(score: wider, peak: wider):
        return wp.exp(score - peak)

    # The option of the module, too: with a derivative there is no tile_matmul of bfloat16.
    no_derivative = {"enable_backward": False, "module_options": {"enable_backward": False}}

    @kernel_with(seen, power, **no_derivative)
    def attention(q: array, k: array, v: array, group: int, out: array):
        heads, down = out.shape[1], (out.shape[0] + QUERIES - 1) // QUERIES
        head = wp.tid() % heads
        first = (down - 1 - wp.tid() // heads) * QUERIES  # the longest work begins first
        tile = wp.tile_load(q, shape=(QUERIES, 1, WIDTH), offset=(first, head, 0), storage="shared")
        queries = wp.tile_reshape(tile, shape=(QUERIES, WIDTH))
        rows = wp.tile_broadcast(
            wp.tile_reshape(wp.tile_arange(QUERIES, dtype=int), shape=(QUERIES, 1)), shape=(QUERIES, KEYS)
        )
        columns = wp.tile_broadcast(wp.tile_arange(KEYS, dtype=int), shape=(QUERIES, KEYS))
        sums = wp.tile_zeros(shape=(QUERIES, WIDTH), dtype=wider)
        total = wp.tile_zeros(shape=QUERIES, dtype=wider)
        largest = wp.tile_full(shape=QUERIES, value=-wider(wp.inf), dtype=wider)
        for j in range(0, wp.min(first + QUERIES, out.shape[0]), KEYS):
            loaded = wp.tile_load(k, shape=(KEYS, 1, WIDTH), offset=(j, head // group, 0), storage="shared")
            keys = wp.tile_transpose(wp.tile_reshape(loaded, shape=(KEYS, WIDTH)))
            product = wp.tile_zeros(shape=(QUERIES, KEYS), dtype=wider, storage="shared")
            wp.tile_matmul(queries, keys, product)
            scores = wp.tile_map(seen, product, rows, columns, j - first)
            peak = wp.tile_map(wp.max, largest, wp.tile_reduce(wp.max, scores, axis=1))
            wide = wp.tile_broadcast(wp.tile_reshape(peak, shape=(QUERIES, 1)), shape=(QUERIES, KEYS))
            weights = wp.tile_map(power, scores, wide)
            fade = wp.tile_map(power, largest, peak)
            total = total * fade + wp.tile_sum(weights, axis=1)
            values = wp.tile_load(v, shape=(KEYS, 1, WIDTH), offset=(j, head // group, 0), storage="shared")
            part = wp.tile_zeros(shape=(QUERIES, WIDTH), dtype=wider, storage="shared")
            wp.tile_matmul(wp.tile_astype(weights, dtype=element), wp.tile_reshape(values, shape=(KEYS, WIDTH)), part)
            sums = sums * wp.tile_broadcast(wp.tile_reshape(fade, shape=(QUERIES, 1)), shape=(QUERIES, WIDTH)) + part
            largest = peak
        mean = sums / wp.tile_broadcast(wp.tile_reshape(total, shape=(QUERIES, 1)), shape=(QUERIES, WIDTH))
        block = wp.tile_reshape(wp.tile_astype(mean, dtype=element), shape=(QUERIES, 1, WIDTH))
        wp.tile_store(out, block, offset=(first, head, 0))

    return attention


def attention_in_tiles(inputs, outs, **chosen):
    """Calls the kernel, by default with the fastest choice."""
    (length, heads, width), dtype = outs[0].shape, str(outs[0].dtype)
    chosen = dict(chosen or CHOICE)
    launch = blocks(-(-length // chosen["QUERIES"]) * heads, chosen.pop("threads"))
    kernel = attention_tiles(dtype, width, max(32, 1 << (width - 1).bit_length()), **chosen)
    call = bridge.jax_kernel(kernel, **launch, output_dims=outs[0].shape)
    group = heads // max(inputs[1].shape[1], 1)
    return lambda q, k, v: call(q, k, v, group)
