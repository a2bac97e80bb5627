"""Tells the proof of :mod:`bridge.source.element_wise` about Numba-CUDA: its threads, and the code that it compiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.languages.launch_shape import LaunchShape
from bridge.source.affine import Affine, Counter
from bridge.source.language_rules import LanguageRules, Source, key_of
from bridge.source.meanings import LinkedMeanings

_AXES = "xyz"


def source_of(dispatcher: Any) -> Source | None:
    """The source of a kernel or function; None if Numba-CUDA does not compile it as it stands."""
    is_plain = dispatcher.targetoptions.get("inline") in (None, False, "never")  # others are not linked
    return Source(dispatcher.py_func) if is_plain else None


def rules_of(compiled: Any, shape: LaunchShape) -> LanguageRules:
    """What Numba-CUDA makes of the source of a kernel that is compiled and launched in this shape."""
    meanings = LinkedMeanings(compiled._codelibrary, is_known=lambda library: False)
    return replace(launch_rules(shape), meanings=meanings.of)


def launch_rules(shape: LaunchShape) -> LanguageRules:
    """What Numba-CUDA makes of the source of a kernel that is launched in this shape."""
    from numba import cuda
    from numba.cuda.dispatcher import CUDADispatcher

    def follow(value: Any) -> Source | None:
        # A function with explicit signatures converts its arguments.
        return source_of(value) if isinstance(value, CUDADispatcher) and value._can_compile else None

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
    return LanguageRules((*threads, *blocks), attributes, calls, follow)
