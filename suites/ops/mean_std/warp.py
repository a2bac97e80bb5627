"""Kernels of mean_std in Warp."""

import functools

import bridge
from suites.kernels.warp.blocks import PARTS, PARTS_THREADS, SIDE, TILE, blocks, part_count, scalar, wp
from suites.kernels.warp.blocks import add_up as add_up_warp


@functools.cache
def finish_mean_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def finish_mean(sums: vector, count: int, mean: vector, centers: vector):
        """Computes the mean from partial sums, and fills a tile with it."""
        average = wp.tile_sum(wp.tile_load(sums, shape=PARTS)) * (element(1) / element(count))
        wp.tile_store(mean, average)
        wp.tile_store(centers, wp.tile_broadcast(average, shape=(TILE,)))

    return finish_mean


@functools.cache
def add_up_squares_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def squared_distance(a: element, b: element):
        return (a - b) * (a - b)

    @wp.kernel(module="unique")
    def add_up_squares(x: vector, centers: vector, sums: vector):
        """Like :func:`suites.kernels.warp.blocks.add_up`, for squared distances."""
        tiles = (x.shape[0] + TILE - 1) // TILE
        each = (tiles + sums.shape[0] - 1) // sums.shape[0]
        first = wp.tid() * each
        total = wp.tile_zeros(shape=TILE, dtype=element)
        for i in range(first, wp.min(first + each, tiles)):
            # Beyond the end of x tiles hold zeros, so the center must be zero there too.
            beyond = wp.max((i + 1) * TILE - x.shape[0], 0)
            center = wp.tile_load(centers, shape=TILE, offset=beyond)
            total += wp.tile_map(squared_distance, wp.tile_load(x, shape=TILE, offset=i * TILE), center)
        square = wp.tile_reshape(total * element(1), shape=(SIDE, SIDE))
        wp.tile_store(sums, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=wp.tid())

    return add_up_squares


@functools.cache
def finish_std_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def root(value: element):  # older releases of Warp have no adjoint of a tile's wp.sqrt
        return wp.sqrt(value)

    @wp.kernel(module="unique")
    def finish_std(sums: vector, count: int, std: vector):
        # No loop: the adjoint of the root needs the sum, and adjoints do not know the result of a loop.
        variance = wp.tile_sum(wp.tile_load(sums, shape=PARTS)) * (element(1) / element(count))
        wp.tile_store(std, wp.tile_map(root, variance))

    return finish_std


def mean_std_warp(inputs, outs):
    dtype, count = str(inputs[0].dtype), inputs[0].shape[0]
    parts = part_count(count)
    in_parts = {**blocks(parts), "output_dims": parts, "enable_backward": True}
    add = bridge.jax_kernel(add_up_warp(dtype), **in_parts)
    mean_of = bridge.jax_kernel(
        finish_mean_warp(dtype),
        num_outputs=2,
        **blocks(1, PARTS_THREADS),
        output_dims={"mean": 1, "centers": TILE},
    )
    add_squares = bridge.jax_kernel(add_up_squares_warp(dtype), **in_parts)
    std_of = bridge.jax_kernel(finish_std_warp(dtype), **blocks(1, PARTS_THREADS), output_dims=1)

    def mean_std(x):
        mean, centers = mean_of(*add(x), count)
        return [mean, *std_of(*add_squares(x, centers), count)]

    return mean_std
