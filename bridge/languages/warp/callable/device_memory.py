"""Zeroes, fills and copies arrays by launches of kernels, in the place of functions of Warp's library."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp

from bridge.languages.warp.parameters import MAX_DIMENSIONS, MAX_EXTENT

wp: Any = warp
"""Warp without its annotations: a type checker cannot follow them in kernels."""

FILLS, COPIES = ("wp_memset_host", "wp_memtile_host", "wp_array_fill_host"), ("wp_memcpy_h2h", "wp_array_copy_host")
"""The functions of Warp's library in whose place kernels are launched."""


@wp.kernel(enable_backward=False)
def _copy_words(source: wp.array(dtype=Any), target: wp.array(dtype=Any)):
    i = wp.tid()
    target[i] = source[i]


@wp.kernel(enable_backward=False)
def _fill_words(value: Any, target: wp.array(dtype=Any)):
    target[wp.tid()] = value


@wp.kernel(enable_backward=False)
def _copy_strided(source: wp.array4d(dtype=Any), target: wp.array4d(dtype=Any)):
    i, j, k, m = wp.tid()
    target[i, j, k, m] = source[i, j, k, m]


@wp.kernel(enable_backward=False)
def _fill_strided(value: Any, target: wp.array4d(dtype=Any)):
    i, j, k, m = wp.tid()
    target[i, j, k, m] = value


def launch_instead(name: str, alignment: Callable[[int], int], arguments: Sequence[Any]) -> bool:
    """Launches kernels that do what a call of Warp's library does. False if there are none for it.

    Args:
        name: The function, of :data:`FILLS` or :data:`COPIES`.
        alignment: Gives the bytes that an address is a multiple of in each call.
        arguments: Its arguments.
    """
    target, second, *rest = arguments
    if name == "wp_memset_host":
        width = math.gcd(8, *rest, alignment(target))
        return _move(alignment, [(rest[0] // width, width, width)], width, target, bytes([second]) * width)
    if name == "wp_memtile_host":
        size, count = rest
        return _move(alignment, [(count, size, size)], size, target, bytes(second.contents))
    if name == "wp_memcpy_h2h":
        return _move(alignment, [], rest[0], target, second)
    array, is_fill, *kinds = target.contents, name in FILLS, second, *rest[:-1]
    if kinds[0] if is_fill else any(kinds[1:]):
        return False  # with indices
    source = bytes(rest[0].contents) if is_fill else second.contents.data
    from_strides = array.strides if is_fill else second.contents.strides
    dims = list(zip(array.shape, array.strides, from_strides, strict=True))[: array.ndim]
    return _move(alignment, dims, rest[-1], array.data, source)


def _move(
    alignment: Callable[[int], int], dims: Sequence[tuple[int, ...]], size: int, target: int, source: int | bytes
) -> bool:
    """Copies elements, or fills in a value. False if no kernel does so.

    Args:
        alignment: As for :func:`launch_instead`.
        dims: Extent, stride in the target and stride in the source, in bytes, of each dimension.
        size: Bytes of an element.
        target: Where the first element goes.
        source: Where the first element is, or the value.
    """
    addresses = [target] if isinstance(source, bytes) else [target, source]
    width = math.gcd(8, size, *(stride for _, *each in dims for stride in each), *map(alignment, addresses))
    word, value = getattr(wp, f"uint{8 * width}"), source
    if isinstance(source, bytes):
        words = [word(each) for each in np.frombuffer(source, f"u{width}").tolist()]
        if source != source[:width] * len(words):
            return all(_launch(word, width, dims, target + width * at, each) for at, each in enumerate(words))
        value = words[0]
    return _launch(word, width, [*dims, (size // width, width, width)], target, value)


def _launch(word: Any, width: int, dims: Sequence[tuple[int, ...]], target: int, source: Any) -> bool:
    """Launches a kernel that copies words of so many bytes from an address, or fills in a word."""
    merged: list[tuple[int, ...]] = []
    for extent, *steps in dims:
        if extent == 0:
            return True
        if merged and all(outer == extent * step for outer, step in zip(merged[-1][1:], steps, strict=True)):
            extent *= merged.pop()[0]
        if extent > 1:
            merged.append((extent, *steps))
    if len(merged) > MAX_DIMENSIONS or any(each[0] > MAX_EXTENT for each in merged):
        return False
    is_flat = len(merged) <= 1
    merged = [*[(1, width, width)] * ((1 if is_flat else MAX_DIMENSIONS) - len(merged)), *merged]
    shape, to_strides, from_strides = zip(*merged, strict=True)
    to = wp.array(ptr=target, dtype=word, shape=shape, strides=to_strides, device="cpu")
    if isinstance(source, int):
        kernel = _copy_words if is_flat else _copy_strided
        source = wp.array(ptr=source, dtype=word, shape=shape, strides=from_strides, device="cpu")
    else:
        kernel = _fill_words if is_flat else _fill_strided
    wp.launch(kernel, dim=shape, inputs=[source, to], device="cpu")
    return True
