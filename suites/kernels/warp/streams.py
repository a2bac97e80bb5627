"""Makes element-wise Warp kernels: vectors on a GPU, tiles on the CPU."""

from typing import Any

from suites.kernels.warp.blocks import STREAM_TILE, kernel_with, scalar, wp
from suites.kernels.warp.vectors import FOUR, block_of, on_gpu, thread_of_block, vectors_of


def stream(operation: Any, dtype: str, inputs: int) -> Any:
    """Makes the kernel that applies an operation to all elements of one or two vectors.

    On a GPU a thread takes FOUR neighbours by one vector instruction for each array, or one by one where an array is
    not aligned, and at the end. On the CPU a block, which is one thread, takes a tile. Its launch is
    :func:`per_stream_tile`.

    Args:
        operation: A ``warp.func`` of so many elements.
        dtype: The dtype of all arrays.
        inputs: 1 or 2.
    """
    vector = wp.array(dtype=scalar(dtype))
    vectors = vectors_of(dtype)
    four, aligned, load, store = vectors.kind, vectors.aligned, vectors.load_within, vectors.store_within

    if inputs == 1:

        @kernel_with(operation)
        def stream(x: vector, out: vector):
            first = block_of(wp.tid()) * STREAM_TILE
            if on_gpu():
                i = first + thread_of_block() * FOUR
                in_vectors = i + FOUR <= out.shape[0] and aligned(x) and aligned(out)
                v = load(x, i, in_vectors)
                store(out, i, in_vectors, four(operation(v[0]), operation(v[1]), operation(v[2]), operation(v[3])))
            elif first + STREAM_TILE <= out.shape[0]:
                whole = wp.tile_load(x, shape=STREAM_TILE, offset=first, bounds_check=False)
                wp.tile_store(out, wp.tile_map(operation, whole), offset=first, bounds_check=False)
            else:
                rest = wp.tile_load(x, shape=STREAM_TILE, offset=first)
                wp.tile_store(out, wp.tile_map(operation, rest), offset=first)

    else:

        @kernel_with(operation)
        def stream(x: vector, y: vector, out: vector):
            first = block_of(wp.tid()) * STREAM_TILE
            if on_gpu():
                i = first + thread_of_block() * FOUR
                in_vectors = i + FOUR <= out.shape[0] and aligned(x) and aligned(y) and aligned(out)
                v, w = load(x, i, in_vectors), load(y, i, in_vectors)
                both = four(operation(v[0], w[0]), operation(v[1], w[1]), operation(v[2], w[2]), operation(v[3], w[3]))
                store(out, i, in_vectors, both)
            elif first + STREAM_TILE <= out.shape[0]:
                a = wp.tile_load(x, shape=STREAM_TILE, offset=first, bounds_check=False)
                b = wp.tile_load(y, shape=STREAM_TILE, offset=first, bounds_check=False)
                wp.tile_store(out, wp.tile_map(operation, a, b), offset=first, bounds_check=False)
            else:
                rest_a = wp.tile_load(x, shape=STREAM_TILE, offset=first)
                rest_b = wp.tile_load(y, shape=STREAM_TILE, offset=first)
                wp.tile_store(out, wp.tile_map(operation, rest_a, rest_b), offset=first)

    return stream
