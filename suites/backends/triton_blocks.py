"""Loads and stores blocks of matrices in Triton, for the kernels of operators."""

import math
from typing import Any

import numpy as np

from suites.backends.triton import jit, tl


def has_descriptors(array: Any) -> bool:
    """Whether the copy engine of a GPU moves blocks of an array: its rows begin at multiples of 16 bytes."""
    row = int(array.shape[-1]) * np.dtype(array.dtype).itemsize
    return row % 16 == 0 and bool(math.prod(array.shape))


@jit
def matrix(pointer, rows, columns, stride, ROWS: "tl.constexpr", COLUMNS: "tl.constexpr", DESCRIBED: "tl.constexpr"):
    """What `load` and `store` take for a matrix: its tensor descriptor, or its pointer."""
    if DESCRIBED:
        return tl.make_tensor_descriptor(pointer, [rows, columns], [stride, 1], [ROWS, COLUMNS])
    else:
        return pointer


@jit
def load(source, i, j, rows, columns, stride, ROWS: "tl.constexpr", COLUMNS: "tl.constexpr", DESCRIBED: "tl.constexpr"):
    """The block of a matrix that begins at (i, j), with zeros outside of it."""
    if DESCRIBED:
        return source.load([i, j])
    else:
        down, across = i + tl.arange(0, ROWS)[:, None], j + tl.arange(0, COLUMNS)[None, :]
        return tl.load(source + down.to(tl.int64) * stride + across, (down < rows) & (across < columns), other=0)


@jit
def store(
    target, block, i, j, rows, columns, stride, ROWS: "tl.constexpr", COLUMNS: "tl.constexpr",
    DESCRIBED: "tl.constexpr",
):  # fmt: skip
    """Stores a block of a matrix that begins at (i, j)."""
    if DESCRIBED:
        target.store([i, j], block)
    else:
        down, across = i + tl.arange(0, ROWS)[:, None], j + tl.arange(0, COLUMNS)[None, :]
        tl.store(target + down.to(tl.int64) * stride + across, block, (down < rows) & (across < columns))
