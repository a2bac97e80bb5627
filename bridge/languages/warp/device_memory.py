"""Does by launches of kernels, as CUDA needs it, what functions of Warp's library do with memory on the CPU."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from bridge.languages.warp.dtypes import MAX_DIMENSIONS, MAX_EXTENT

_VALUE_BYTES = 128  # of the largest value that is filled in: a matrix of 4 x 4 float64
_CHUNK = 64  # elements that one thread adds up

Alignment = Callable[[int], int]
"""Gives the bytes that an address is a multiple of in each call."""


@wp.kernel(enable_backward=False)
def copy_words(source: wp.array(dtype=Any), target: wp.array(dtype=Any)):
    i = wp.tid()
    target[i] = source[i]


@wp.kernel(enable_backward=False)
def fill_words(value: Any, target: wp.array(dtype=Any)):
    target[wp.tid()] = value


@wp.kernel(enable_backward=False)
def copy_strided(source: wp.array4d(dtype=Any), target: wp.array4d(dtype=Any)):
    i, j, k, m = wp.tid()
    target[i, j, k, m] = source[i, j, k, m]


@wp.kernel(enable_backward=False)
def fill_strided(value: Any, words: int, target: wp.array4d(dtype=Any)):
    i, j, k, m = wp.tid()
    target[i, j, k, m] = value[m % words]


@wp.kernel(enable_backward=False)
def sum_chunks(source: wp.array(dtype=Any), sums: wp.array(dtype=Any)):
    chunk = wp.tid()
    total = source.dtype(0)
    for i in range(chunk * wp.static(_CHUNK), wp.min((chunk + 1) * wp.static(_CHUNK), source.shape[0])):
        total += source[i]
    sums[chunk] = total


@wp.kernel(enable_backward=False)
def scan_chunks(
    source: wp.array(dtype=Any), before: wp.array(dtype=Any), inclusive: bool, target: wp.array(dtype=Any)
):
    chunk = wp.tid()
    total = source.dtype(0)
    if before.shape[0] > 0:
        total = before[chunk]
    for i in range(chunk * wp.static(_CHUNK), wp.min((chunk + 1) * wp.static(_CHUNK), source.shape[0])):
        element = source[i]  # may be the target itself
        if inclusive:
            target[i] = total + element
        else:
            target[i] = total
        total += element


def launch_instead(name: str, alignment: Alignment, arguments: Sequence[Any]) -> bool:
    """Launches kernels that do what a call of Warp's library does. False if there are none for it.

    Args:
        name: The function of the library.
        alignment: Tells about the memory that the arguments point to.
        arguments: Its arguments.
    """
    if name == "wp_memset_host":
        target, byte, size = arguments
        width = math.gcd(8, size, alignment(target))
        return _move(alignment, [(size // width, width, 0)], width, target, value=bytes([byte]) * width)
    if name == "wp_memtile_host":
        target, value, size, count = arguments
        return _move(alignment, [(count, size, 0)], size, target, value=bytes(value.contents))
    if name == "wp_memcpy_h2h":
        target, source, size = arguments
        return _move(alignment, [], size, target, source)
    if name == "wp_array_fill_host":
        array, kind, value, size = arguments
        dims = [(extent, stride, 0) for extent, stride in _extents(array.contents)]
        return kind == 0 and _move(alignment, dims, size, array.contents.data, value=bytes(value.contents))
    if name == "wp_array_copy_host":
        array, other, *kinds, size = arguments
        both = zip(_extents(array.contents), _extents(other.contents), strict=True)
        dims = [(extent, stride, from_stride) for (extent, stride), (_, from_stride) in both]
        return not any(kinds) and _move(alignment, dims, size, array.contents.data, other.contents.data)
    kind = name.removesuffix("_host").rpartition("_")[2]
    dtype = {"int": wp.int32, "int64": wp.int64, "float": wp.float32, "double": wp.float64}.get(kind)
    is_scan = name.startswith("wp_array_scan")
    if dtype is None or not (is_scan or name.startswith("wp_array_sum")):
        return False
    source, target, count, *strides = arguments[: 5 if is_scan else 4]
    if arguments[5 if is_scan else 4] != 1 or {*strides} != {wp.types.type_size_in_bytes(dtype)}:
        return False  # of vectors, or of elements apart
    values = _view(source, dtype, [count])
    if is_scan:
        _scan(values, _view(target, dtype, [count]), bool(arguments[6]))
    else:
        _sum(values, _view(target, dtype, [1]))
    return True


def _extents(array: Any) -> list[tuple[int, int]]:
    """The extents of an array with their strides in bytes, from its descriptor."""
    return [(int(array.shape[axis]), int(array.strides[axis])) for axis in range(array.ndim)]


def _view(address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None) -> Any:
    return wp.array(ptr=address, dtype=dtype, shape=tuple(shape), strides=strides and tuple(strides), device="cpu")


def _move(
    alignment: Alignment,
    dims: Sequence[tuple[int, int, int]],
    size: int,
    target: int,
    source: int | None = None,
    value: bytes = b"",
) -> bool:
    """Copies elements, or fills in a value. False if no kernel does so.

    Args:
        alignment: Tells about the memory.
        dims: Extent, stride in the target and stride in the source, in bytes, of each dimension.
        size: Bytes of an element.
        target: Where the first element goes.
        source: Where the first element is.
        value: The element, in the place of a source.
    """
    addresses = [target] if source is None else [target, source]
    strides = [stride for _, *each in dims for stride in each]
    width = math.gcd(8, size, *strides, *map(alignment, addresses))
    merged: list[tuple[int, int, int]] = []
    for extent, *steps in (*dims, (size // width, width, width)):
        if extent == 0:
            return True
        if merged and all(outer == extent * step for outer, step in zip(merged[-1][1:], steps, strict=True)):
            extent *= merged.pop()[0]
        if extent > 1:
            merged.append((extent, *steps))
    if len(merged) > MAX_DIMENSIONS or len(value) > _VALUE_BYTES or any(each[0] > MAX_EXTENT for each in merged):
        return False
    word = getattr(wp, f"uint{8 * width}")
    words = np.frombuffer(value, f"u{width}").tolist()
    is_flat = len(merged) <= 1 and len(words) <= 1
    padded = [*[(1, width, width)] * ((1 if is_flat else MAX_DIMENSIONS) - len(merged)), *merged]
    shape, to_strides, from_strides = zip(*padded, strict=True)
    to = _view(target, word, shape, to_strides)
    if source is not None:
        given = _view(source, word, shape, from_strides)
        wp.launch(copy_words if is_flat else copy_strided, dim=shape, inputs=[given, to], device="cpu")
    elif is_flat:
        wp.launch(fill_words, dim=shape, inputs=[word(words[0]), to], device="cpu")
    else:
        length = _VALUE_BYTES // width
        packed = wp.types.vector(length=length, dtype=word)(*words, *[0] * (length - len(words)))
        wp.launch(fill_strided, dim=shape, inputs=[packed, len(words), to], device="cpu")
    return True


def _scan(source: Any, target: Any, inclusive: bool) -> None:
    """Adds up all elements before each one, and itself if ``inclusive``."""
    chunks = -(-source.size // _CHUNK)
    before = wp.empty(chunks if chunks > 1 else 0, dtype=source.dtype, device="cpu")
    if chunks > 1:
        wp.launch(sum_chunks, dim=chunks, inputs=[source, before], device="cpu")
        _scan(before, before, inclusive=False)
    wp.launch(scan_chunks, dim=chunks, inputs=[source, before, inclusive, target], device="cpu")


def _sum(source: Any, target: Any) -> None:
    """Adds up all elements."""
    chunks = -(-source.size // _CHUNK)
    sums = target if chunks <= 1 else wp.empty(chunks, dtype=source.dtype, device="cpu")
    wp.launch(sum_chunks, dim=max(chunks, 1), inputs=[source, sums], device="cpu")
    if chunks > 1:
        _sum(sums, target)
