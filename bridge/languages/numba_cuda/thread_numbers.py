"""Knows the numbers of threads in a launch of a Numba-CUDA kernel."""

from __future__ import annotations

from typing import Any

from bridge.languages.launch_shape import LaunchShape
from bridge.source.affine import Affine, Counter
from bridge.source.element_wise import ThreadIndices, key_of

_AXES = "xyz"


def thread_indices(shape: LaunchShape) -> ThreadIndices:
    """How a kernel that is launched in this shape learns which thread it is."""
    from numba import cuda
    from numba.cuda.dispatcher import CUDADispatcher

    threads, blocks = [[Counter(extent) for extent in extents] for extents in (shape.block, shape.grid)]
    numbers = [
        Affine.of(thread) + Affine.of(block, width)
        for thread, block, width in zip(threads, blocks, shape.block, strict=True)
    ]
    counts = [Affine(width * blocks) for width, blocks in zip(shape.block, shape.grid, strict=True)]

    def first(values: list[Affine], dimensions: Any = None) -> Any:
        wanted = dimensions.value if isinstance(dimensions, Affine) else None
        if wanted == 1:
            return values[0]
        return tuple(values[:wanted]) if wanted in (2, 3) else None

    attributes = {}
    for axis, name in enumerate(_AXES):
        attributes[key_of(cuda.threadIdx), name] = Affine.of(threads[axis])
        attributes[key_of(cuda.blockIdx), name] = Affine.of(blocks[axis])
        attributes[key_of(cuda.blockDim), name] = Affine(shape.block[axis])
        attributes[key_of(cuda.gridDim), name] = Affine(shape.grid[axis])
    calls = {
        key_of(cuda.grid): lambda *dimensions: first(numbers, *dimensions),
        key_of(cuda.gridsize): lambda *dimensions: first(counts, *dimensions),
    }
    return ThreadIndices((*threads, *blocks), attributes, calls, (CUDADispatcher,))
