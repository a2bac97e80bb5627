"""Does by launches of kernels, as CUDA needs it, what functions of Warp's library do with memory on the CPU."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp

from bridge.languages.warp.dtypes import MAX_DIMENSIONS, MAX_EXTENT

wp: Any = warp
"""Warp without its annotations: a type checker cannot follow them in kernels."""

_VALUE_BYTES = 128  # of the largest value that is filled in: a matrix of 4 x 4 float64


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
def _fill_strided(value: Any, words: int, target: wp.array4d(dtype=Any)):
    i, j, k, m = wp.tid()
    target[i, j, k, m] = value[m % words]


def launch_instead(name: str, alignment: Callable[[int], int], arguments: Sequence[Any]) -> bool:
    """Launches kernels that do what a call of Warp's library does. False if there are none for it.

    Args:
        name: The function of the library.
        alignment: Gives the bytes that an address is a multiple of in each call.
        arguments: Its arguments.
    """
    target, second, *rest = arguments
    if name == "wp_memset_host":
        width = math.gcd(8, *rest, alignment(target))
        return _move(alignment, [(rest[0] // width, width, 0)], width, target, bytes([second]) * width)
    if name == "wp_memtile_host":
        size, count = rest
        return _move(alignment, [(count, size, 0)], size, target, bytes(second.contents))
    if name == "wp_memcpy_h2h":
        return _move(alignment, [], rest[0], target, second)
    if name in ("wp_array_fill_host", "wp_array_copy_host"):
        array, is_fill, *kinds = target.contents, "fill" in name, second, *rest[:-1]
        if kinds[0] if is_fill else any(kinds[1:]):
            return False  # with indices
        source = bytes(rest[0].contents) if is_fill else second.contents.data
        from_strides = [0] * MAX_DIMENSIONS if is_fill else second.contents.strides
        dims = list(zip(array.shape, array.strides, from_strides, strict=True))[: array.ndim]
        return _move(alignment, dims, rest[-1], array.data, source)
    return False


def _view(address: int, dtype: Any, *shape: int, **options: Any) -> Any:
    return wp.array(ptr=address, dtype=dtype, shape=shape, device="cpu", **options)


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
    value = source if isinstance(source, bytes) else b""
    addresses = [target] if isinstance(source, bytes) else [target, source]
    width = math.gcd(8, size, *(stride for _, *each in dims for stride in each), *map(alignment, addresses))
    merged: list[tuple[int, ...]] = []
    for extent, *steps in (*dims, (size // width, width, width)):
        if extent == 0:
            return True
        if merged and all(outer == extent * step for outer, step in zip(merged[-1][1:], steps, strict=True)):
            extent *= merged.pop()[0]
        if extent > 1:
            merged.append((extent, *steps))
    if len(merged) > MAX_DIMENSIONS or len(value) > _VALUE_BYTES or any(each[0] > MAX_EXTENT for each in merged):
        return False
    word, words = getattr(wp, f"uint{8 * width}"), np.frombuffer(value, f"u{width}").tolist()
    is_flat = len(merged) <= 1 and len(words) <= 1
    merged = [*[(1, width, width)] * ((1 if is_flat else MAX_DIMENSIONS) - len(merged)), *merged]
    shape, to_strides, from_strides = zip(*merged, strict=True)
    to = _view(target, word, *shape, strides=to_strides)
    if not isinstance(source, bytes):
        kernel, given = _copy_words if is_flat else _copy_strided, [_view(source, word, *shape, strides=from_strides)]
    elif is_flat:
        kernel, given = _fill_words, [word(words[0])]
    else:
        length = _VALUE_BYTES // width
        padded = [*words, *[0] * (length - len(words))]
        kernel, given = _fill_strided, [wp.types.vector(length=length, dtype=word)(*padded), len(words)]
    wp.launch(kernel, dim=shape, inputs=[*given, to], device="cpu")
    return True
