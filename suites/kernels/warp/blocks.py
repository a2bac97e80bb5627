"""Imports Warp without its banner, and gives Warp kernels their building blocks.

A function of a dtype's name makes the kernel for that dtype, and ``functools.cache`` keeps it. The kernel is annotated
with Warp types from the function's closure. ``module="unique"`` has Warp compile the kernel alone, on its first use.
Modules with kernels have no ``from __future__ import annotations``: Warp reads annotations as objects.

Tiles: on a GPU the threads of a block share the work on a tile; on the CPU a block is one thread. Warp's CPU code keeps
a tile in vector registers if all arrays are vectors and ``wp.tid()`` is one number, the index of the block: otherwise
it does not know that elements are neighbours. Elements beyond the end of an array are loaded as zeros and not stored.
"""

import functools
import hashlib
import inspect
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import warp

from suites.kernels.half_precision import wide

wp: Any = warp
"""Warp without its annotations: a type checker cannot follow them in kernels."""

# Warp prints its start-up banner on the standard output, where reports go.
if hasattr(wp, "LOG_WARNING"):
    wp.config.log_level = wp.LOG_WARNING
else:  # older releases
    wp.config.quiet = True


TILE = 256
"""Elements of a tile."""

SIDE = 16
"""Rows and columns of a tile as a square. The CPU adds up its rows with vector instructions, four times as fast as
element by element."""

TILE_THREADS = 64
"""Threads that share a tile: each has four loads under way, see :mod:`suites.kernels.numba_cuda.blocks`."""

STREAM_TILE = 1024
"""Elements of a tile in element-wise kernels."""

STREAM_THREADS = 256
"""Threads that share such a tile: each has four loads of each input under way."""

LANES = 8
"""Threads that share a row of a sparse matrix on a GPU. In a row of the samples' mean length each has four elements."""

PARTS = 4096
"""The most parts of a vector in a reduction: this many blocks fill a GPU."""

PARTS_THREADS = 256
"""Threads that add up the sums of the parts. They load zeros for missing parts."""


def scalar(dtype: str) -> Any:
    """The Warp type of a dtype: ``wp.float32`` for ``"float32"``."""
    return getattr(wp, dtype)


def real(dtype: str) -> Any:
    """The Warp type that numbers of a dtype are computed in: ``wp.float32`` for 16 bits, whose sums lose digits."""
    return scalar(str(wide(dtype)))


# Launches: functions of specs or arrays that return options of bridge.jax_kernel.


def blocks(count: int, threads: int = TILE_THREADS) -> dict[str, Any]:
    """The launch of ``count`` blocks, for a kernel that works on tiles: its ``wp.tid()`` is the index of the block."""
    return {"launch_dims": (count, threads), "block_dim": threads}


def per_stream_tile(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of one block per tile of an element-wise kernel. All outputs have one shape."""
    tiles = -(-math.prod(outs[0].shape) // STREAM_TILE)
    return {**blocks(tiles, STREAM_THREADS), "output_dims": outs[0].shape}


def tile_count(size: int) -> int:
    """Tiles that ``size`` elements fill; the last one may be incomplete."""
    return -(-size // TILE)


def part_count(size: int) -> int:
    """Parts of a vector in a reduction. Each has at least four tiles, and none is empty."""
    tiles = max(tile_count(size), 1)
    each = max(4, -(-tiles // PARTS))
    return -(-tiles // each)


def zeros(outs: Sequence[Any]) -> list[jax.Array]:
    """Initial values of outputs that a kernel adds to."""
    return [jnp.zeros(out.shape, out.dtype) for out in outs]


# Parts of kernels.


def kernel_with(*operations: Any, **options: Any) -> Any:
    """``warp.kernel(module="unique")`` for a kernel that hands functions to ``warp.tile_map``.

    Warp finds the machine code of a kernel, in the process and on disk, by a digest that leaves out functions which are
    arguments of its own functions (1.19). Kernels of equal text would share the code of the first. So the name of the
    kernel, which counts, has a digest of the functions.

    Args:
        *operations: The functions, each a ``warp.func``.
        **options: Further options of ``warp.kernel``.
    """
    digest = hashlib.sha256()
    for each in operations:
        closure = inspect.getclosurevars(each.func)
        values = sorted(f"{name}={value!r}" for name, value in {**closure.nonlocals, **closure.globals}.items())
        digest.update(f"{each.key} {inspect.getsource(each.func)} {values}".encode())

    def decorated(function: Any) -> Any:
        function.__qualname__ += f"_{digest.hexdigest()[:16]}"
        return wp.kernel(module="unique", **options)(function)

    return decorated


_QUOTIENT = """
#if defined(__CUDA_ARCH__)
    return __fdividef(dividend, divisor);
#else
    return dividend / divisor;
#endif
"""

_ADJOINT_OF_QUOTIENT = """
    adj_dividend += adj_ret / divisor;
    adj_divisor -= adj_ret * dividend / (divisor * divisor);
"""


@wp.func_native(snippet=_QUOTIENT, adj_snippet=_ADJOINT_OF_QUOTIENT)
def quotient(dividend: wp.float32, divisor: wp.float32) -> wp.float32:
    """The quotient, to 2 ulp on a GPU, as in :func:`suites.kernels.numba_cuda.blocks.quotient`."""
    ...


@functools.cache
def add_up(dtype: str) -> Any:
    """Makes the kernel that adds up the parts of ``x``, one for each element of ``sums``.

    A chain of roundings has one addition for each tile of a part, and at most ``2 * SIDE`` for the sum of a tile.
    """
    element, wider = scalar(dtype), real(dtype)

    @wp.func
    def widened(value: element):
        return wider(value)

    @kernel_with(widened)
    def add_up(x: wp.array(dtype=element), sums: wp.array(dtype=wider)):
        tiles = (x.shape[0] + TILE - 1) // TILE
        each = (tiles + sums.shape[0] - 1) // sums.shape[0]
        first = wp.tid() * each
        total = wp.tile_zeros(shape=TILE, dtype=wider)
        for i in range(first, wp.min(first + each, tiles)):
            total += wp.tile_map(widened, wp.tile_load(x, shape=TILE, offset=i * TILE))
        # The product makes a copy: a reshaped tile lies in shared memory, but the running total must stay in registers.
        square = wp.tile_reshape(total * wider(1), shape=(SIDE, SIDE))
        wp.tile_store(sums, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=wp.tid())

    return add_up


@functools.cache
def add_up_parts(dtype: str) -> Any:
    """Makes the kernel that adds up at most PARTS ``sums`` in one block of PARTS_THREADS."""
    element, wider = scalar(dtype), real(dtype)

    @wp.func
    def rounded(value: wider):
        return element(value)

    @kernel_with(rounded)
    def add_up_parts(sums: wp.array(dtype=wider), total: wp.array(dtype=element)):
        wp.tile_store(total, wp.tile_map(rounded, wp.tile_sum(wp.tile_load(sums, shape=PARTS))))

    return add_up_parts
