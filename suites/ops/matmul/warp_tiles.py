"""The kernel of matmul in Warp's tiles, on the tensor cores of a GPU: a block adds up a tile of out.

cuBLASDx, which comes with Warp 1.19, multiplies 16 bits by ``mma.sync`` for a Hopper GPU: it has no ``wgmma`` there.
It also loads nothing while it multiplies, so several blocks share a multiprocessor where shared memory permits it.
"""

import functools
import math

import bridge
from suites.kernels.warp.blocks import blocks, real, scalar, wp
from suites.ops.matmul.numba_cpu import DEPTHS

LARGE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8, "threads": 128}
"""Of numbers of 16 bits. Each product reads and writes the tile of out, so it has to be deep."""

SMALL = {"ROWS": 32, "COLUMNS": 32, "DEPTH": 32, "GROUP": 8, "threads": 128}


@functools.cache
def matmul_tiles(dtype, ROWS, COLUMNS, DEPTH, GROUP):
    """A block for each tile of out, in groups that share rows of A and columns of B."""
    element, wider = scalar(dtype), real(dtype)
    matrix = wp.array2d(dtype=element)

    # The option of the module, too: with a derivative there is no tile_matmul of bfloat16.
    @wp.kernel(module="unique", enable_backward=False, module_options={"enable_backward": False})
    def matmul(A: matrix, B: matrix, out: matrix):
        down, across = (out.shape[0] + ROWS - 1) // ROWS, (out.shape[1] + COLUMNS - 1) // COLUMNS
        tile = wp.tid()
        first = tile // (GROUP * across) * GROUP
        height = wp.min(down - first, GROUP)
        place = tile % (GROUP * across)
        i, j = (first + place % height) * ROWS, place // height * COLUMNS
        total = wp.tile_zeros(shape=(ROWS, COLUMNS), dtype=wider, storage="shared")
        for k in range(0, A.shape[1], DEPTH):
            a = wp.tile_load(A, shape=(ROWS, DEPTH), offset=(i, k), storage="shared")
            b = wp.tile_load(B, shape=(DEPTH, COLUMNS), offset=(k, j), storage="shared")
            wp.tile_matmul(a, b, total)
        wp.tile_store(out, wp.tile_astype(total, dtype=element), offset=(i, j))

    return matmul


def matmul_in_tiles(inputs, outs, **chosen):
    """Calls the kernel, by default with the fastest choice for the dtype and size."""
    if inputs[0].shape[1] != inputs[1].shape[0]:
        raise ValueError(DEPTHS)
    (rows, columns), dtype = outs[0].shape, outs[0].dtype
    chosen = dict(chosen or (LARGE if dtype.itemsize == 2 and min(rows, columns) >= 2048 else SMALL))
    tiles = math.ceil(rows / chosen["ROWS"]) * math.ceil(columns / chosen["COLUMNS"])
    launch = blocks(tiles, chosen.pop("threads"))
    return bridge.jax_kernel(matmul_tiles(str(dtype), **chosen), **launch, output_dims=outs[0].shape)
