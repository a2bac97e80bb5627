"""Measures the memory bandwidth of the CPU: the roof that kernels are compared with.

The roof of a cell depends on where its data lies. It is therefore measured for working sets of each level of the memory
hierarchy, hot as in the timed loop. Copies and reads have separate roofs: for a copy the processor also fetches the
memory that it will overwrite, so a kernel that hardly writes may be faster than any copy.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites.backends.numba_cpu import block_sum
from suites.numerics.arrays import Array

_SMALLEST = (16 << 10, 32 << 10, 64 << 10, 96 << 10)
"""Working sets, in bytes, that fit into the caches of one core, the first into the innermost."""

_SECONDS = 0.04
_BLOCK = 4096


def level_of(working_set_bytes: int) -> str:
    """Returns the level of the memory hierarchy that holds a working set: ``L2``, ``L3`` or ``memory``."""
    sizes = cache_bytes()
    return next((name for name in ("L2", "L3") if working_set_bytes <= sizes[name]), "memory")


@functools.cache
def cache_bytes() -> dict[str, int]:
    """Returns the sizes of the second- and third-level caches from Linux; 1 MiB and 32 MiB without it."""
    sizes = {"L2": 1 << 20, "L3": 32 << 20}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if f"L{level}" in sizes:
                sizes[f"L{level}"] = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    return sizes


def _working_sets(level: str) -> tuple[int, ...]:
    sizes = cache_bytes()
    l3 = sizes["L3"]
    return {"L2": (*_SMALLEST, sizes["L2"] // 2), "L3": (l3 // 8, l3 // 4, l3 // 2), "memory": (5 * l3 // 4, 8 * l3)}[
        level
    ]


class Roof(NamedTuple):
    """A measured bandwidth in bytes per second, and what was measured: ``copy, memory`` or ``read, L2 cache``."""

    bandwidth: float
    kind: str


def roof(read_bytes: int, written_bytes: int) -> Roof:
    """Returns the bandwidth of the fastest copy of this size, or of the fastest read if hardly anything is written.

    Args:
        read_bytes: Bytes that the kernel reads.
        written_bytes: Bytes that it writes.
    """
    kind = "read" if written_bytes * 8 < read_bytes else "copy"
    level = level_of(read_bytes + written_bytes)
    return Roof(measure(level, kind), f"{kind}, {level if level == 'memory' else level + ' cache'}")


@functools.cache
def measure(level: str, kind: str) -> float:
    """Returns the best of several methods and working sets: NumPy, XLA, and Numba with one thread and with all.

    Each method repeats the transfer for 40 ms; its fastest repetition counts.

    Args:
        level: A name that :func:`level_of` returns.
        kind: ``copy`` (bytes read plus bytes written) or ``read``.
    """
    methods = {"copy": _copies, "read": _reads}[kind]
    return max(rate for size in _working_sets(level) for rate in methods(size))


def _copies(working_set: int) -> list[float]:
    count = working_set // 8
    source, target = np.ones(count, np.float32), np.ones(count, np.float32)
    xla_source = jnp.asarray(source)
    xla_copy = jax.jit(lambda array: jnp.copy(array))
    repeats = max(1, (4 << 20) // working_set)
    transfers: list[tuple[Callable[[], Any], int]] = [
        (lambda: np.copyto(target, source), 1),
        (lambda: xla_copy(xla_source).block_until_ready(), 1),
        (lambda: _copy(source, target, repeats), 2 * repeats),
        (lambda: _copy_parallel(source, target), 1),
    ]
    return [8 * count * calls / _fastest(transfer) for transfer, calls in transfers]


def _reads(working_set: int) -> list[float]:
    data = np.ones(working_set // 4, np.float32)
    repeats = max(1, (4 << 20) // working_set)
    return [
        4 * data.size * repeats / _fastest(lambda: _read(data, repeats)),
        4 * data.size / _fastest(lambda: _read_parallel(data)),
    ]


def _fastest(transfer: Callable[[], Any]) -> float:
    """Returns the seconds of the fastest repetition."""
    transfer()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        transfer()
        best = min(best, time.perf_counter() - start)
    return best


@numba.njit
def _copy(source: Array, target: Array, repeats: int) -> None:
    # Copies there and back, so that the compiler cannot leave a copy out.
    for _ in range(repeats):
        target[:] = source
        source[:] = target


@numba.njit(parallel=True)
def _copy_parallel(source: Array, target: Array) -> None:
    for i in numba.prange(source.size):
        target[i] = source[i]


@numba.njit
def _read(data: Array, repeats: int) -> Any:
    total = data.dtype.type(0)
    for _ in range(repeats):
        for start in range(0, data.size, _BLOCK):
            total += block_sum(data[start : start + _BLOCK])
        data[0] = total
    return total


@numba.njit(parallel=True)
def _read_parallel(data: Array) -> Any:
    total = data.dtype.type(0)
    for block in numba.prange((data.size + _BLOCK - 1) // _BLOCK):
        total += block_sum(data[block * _BLOCK : (block + 1) * _BLOCK])
    return total
