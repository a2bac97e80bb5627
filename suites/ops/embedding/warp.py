"""The kernel of embedding in Warp."""

import functools

from suites.kernels.warp.blocks import scalar, wp


@functools.cache
def embedding_warp(dtype):
    """A thread for each element."""
    matrix = wp.array2d(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def embedding(table: matrix, indices: wp.array(dtype=wp.int32), out: matrix):
        i, j = wp.tid()
        out[i, j] = table[indices[i], j]

    return embedding


def launch(inputs, outs):
    return {"launch_dims": outs[0].shape, "output_dims": outs[0].shape}
