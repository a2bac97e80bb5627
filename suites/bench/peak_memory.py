"""Measures the memory of the host that one call needs at its peak, with its outputs and what it allocates meanwhile.

Linux keeps the largest resident memory of a process, and forgets it when asked. Memory that the process freed but still
holds would hide what a call allocates, so the C library returns it first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

CALLS = 3
"""Calls that are measured; the least growth counts, because other threads may allocate meanwhile."""

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"  # of clear_refs, see proc_pid_clear_refs(5)


def host_peak(function: Callable[..., Any], arguments: Sequence[Any]) -> int | None:
    """Returns the bytes by which one call raises the largest resident memory of this process; None if nobody can tell.

    The outputs count, the arguments do not. It is exact to some pages for each core: the kernel adds them up late. It
    is at least the size of the outputs. The call must have run before, so that nothing is compiled. The process returns
    its freed memory, also where it keeps it otherwise: so do not time calls between and after.

    Args:
        function: Takes the arguments and returns JAX arrays, or anything that holds them.
        arguments: On the device.
    """
    growths, outputs = [], 0
    for _ in range(CALLS):
        grown, outputs = _growth(function, arguments)
        if grown is None:
            return None
        growths.append(grown)
    return max(min(growths), outputs)


def _growth(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[int | None, int]:
    """Returns by how many bytes a call raises the peak, and how many its outputs have."""
    gc.collect()
    _return_freed_memory()
    before = _resident("VmRSS") if _forget_peak() else None
    results = jax.block_until_ready(function(*arguments))
    peak = _resident("VmHWM")
    outputs = sum(_size(leaf) for leaf in jax.tree.leaves(results))
    return None if before is None or peak is None else peak - before, outputs


def _size(leaf: Any) -> int:
    return int(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize)


def _forget_peak() -> bool:
    try:
        _CLEAR.write_text(_FORGET_PEAK)
    except OSError:
        return False
    return True


def _resident(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return None


def _return_freed_memory() -> None:
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Any:
    """glibc's malloc_trim; None with another C library."""
    with contextlib.suppress(AttributeError, OSError):
        return ctypes.CDLL(None).malloc_trim
    return None
