"""Lays out arrays as the launch parameters that Numba-CUDA's kernels take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from bridge.cuda.carried_cubins import launch_of_words
from bridge.cuda.launch_shape import LaunchShape
from bridge.ffi.plans.device import Launch, Patch
from bridge.kernel.arguments import ArrayType, Signature


def array_words(item_bytes: int, extents: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """A C-contiguous array as Numba-CUDA passes it, and the indices of the words that take the address of its data.

    Numba-CUDA expands an array into 8-byte parameters: memory info and parent (both null), number of items, bytes of an
    item, address of the data, extents, strides in bytes.
    """
    strides = [item_bytes * math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    return [0, 0, math.prod(extents), item_bytes, 0, *extents, *strides], (4,)


def array_launch(
    name: str,
    shape: LaunchShape,
    arrays: Sequence[ArrayType],
    cooperative: bool = False,
    words_of: Callable[[int, Sequence[int]], tuple[list[int], tuple[int, ...]]] = array_words,
    compiler: str = "numba-cuda",
) -> Launch:
    """A launch, without handles, whose parameters are C-contiguous arrays.

    Args:
        name: The kernel.
        shape: Grid, block and shared memory.
        arrays: The type of each array; array ``i`` is buffer ``i`` of the call.
        cooperative: Whether the blocks wait for each other.
        words_of: Lays out one array, as :func:`array_words` does.
        compiler: The package that lays them out so.
    """
    blob: list[int] = []
    patches = []
    for index, array in enumerate(arrays):
        words, addresses = words_of(array.item_bytes, array.extents)
        patches += [Patch(word=len(blob) + address, buffer=index) for address in addresses]
        blob += words
    return launch_of_words(name, shape, blob, patches, cooperative=cooperative, compiler=compiler)


def array_shapes(signature: Signature) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and NumPy dtype of each array of a call."""
    return [(array.extents, jnp.dtype(array.dtype)) for array in signature.arrays]
