"""Warp, made quiet, and the building blocks that the operators' Warp kernels share.

A kernel for several dtypes is made by a ``functools.cache``d function of the dtype's name, which closes over the Warp
types that it annotates with; ``module="unique"`` has Warp compile it alone, when it is first used. Modules with kernels
have no ``from __future__ import annotations``: Warp reads annotations as objects.

Tiles: on a GPU the threads of a block share the work on a tile, on the CPU a block is one thread. Warp's code for the
CPU keeps a tile in vector registers where all arrays are vectors and ``wp.tid()`` is one number, the index of the
block: it then knows that elements are neighbours. What lies beyond the end of an array is loaded as zeros, and not
stored.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import warp

wp: Any = warp
"""Without its annotations, which are for a type checker that knows nothing of what Warp compiles."""

# Warp prints its start-up banner on the standard output, where reports go.
if hasattr(wp, "LOG_WARNING"):
    wp.config.log_level = wp.LOG_WARNING
else:  # older releases
    wp.config.quiet = True


TILE = 256
"""Elements of a tile."""

SIDE = 16
"""Of a tile as a square, whose rows the CPU adds up with vector instructions; one by one, elements take four times."""

TILE_THREADS = 64
"""Threads that share a tile: each has four loads under way, see :mod:`suites.backends.numba_cuda_blocks`."""

LANES = 8
"""Threads that share a row of a sparse matrix on a GPU: four elements each of a row of the samples' mean length."""

PARTS = 4096
"""Parts of a vector that is reduced, at most: as many blocks fill a GPU."""

PARTS_THREADS = 256
"""Threads that add up what is left of the parts; for parts that are not there, they load zeros."""


def scalar(dtype: str) -> Any:
    """The Warp type of a dtype: ``wp.float32`` of ``"float32"``."""
    return getattr(wp, dtype)


# How a kernel is called: from specs or arrays to the options of bridge.jax_kernel.


def blocks(count: int, threads: int = TILE_THREADS) -> dict[str, Any]:
    """So many blocks of threads, for a kernel that works on tiles: its ``wp.tid()`` is the index of the block."""
    return {"launch_dims": (count, threads), "block_dim": threads}


def per_tile(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """A block per tile of the first output, all outputs in its shape."""
    return {**blocks(tile_count(math.prod(outs[0].shape))), "output_dims": outs[0].shape}


def tile_count(size: int) -> int:
    """Tiles of so many elements, the last of which may be incomplete."""
    return -(-size // TILE)


def part_count(size: int) -> int:
    """Parts that a vector is reduced in, each to one element: of four tiles at least, and none of them empty."""
    tiles = max(tile_count(size), 1)
    each = max(4, -(-tiles // PARTS))
    return -(-tiles // each)


def zeros(outs: Sequence[Any]) -> list[jax.Array]:
    """Initial values of outputs that a kernel adds to."""
    return [jnp.zeros(out.shape, out.dtype) for out in outs]


# What kernels are made of.


@functools.cache
def add_up(dtype: str) -> Any:
    """The kernel whose ``sums`` are those of the parts of ``x``, as many parts as ``sums`` has elements.

    A chain of roundings has one addition for each tile of a part, and then at most ``2 * SIDE`` for the sum of a tile.
    """
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def add_up(x: vector, sums: vector):
        tiles = (x.shape[0] + TILE - 1) // TILE
        each = (tiles + sums.shape[0] - 1) // sums.shape[0]
        first = wp.tid() * each
        total = wp.tile_zeros(shape=TILE, dtype=element)
        for i in range(first, wp.min(first + each, tiles)):
            total += wp.tile_load(x, shape=TILE, offset=i * TILE)
        # Of a copy: what is reshaped lies in shared memory, the running total in registers.
        square = wp.tile_reshape(total * element(1), shape=(SIDE, SIDE))
        wp.tile_store(sums, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=wp.tid())

    return add_up


@functools.cache
def add_up_parts(dtype: str) -> Any:
    """The kernel whose ``total`` is the sum of ``sums``, at most PARTS, in one block of PARTS_THREADS."""
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def add_up_parts(sums: vector, total: vector):
        wp.tile_store(total, wp.tile_sum(wp.tile_load(sums, shape=PARTS)))

    return add_up_parts
