"""Measures the memory bandwidth of the CPU by NumPy copies as large as a call, to compare kernels with it.

Data of the same size lies in the same caches. The fastest of several copies counts, on one core and on all: a busy
machine lowers a measurement, and nothing raises it.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from reports.render.units import bytes_text
from suites.timing.run_header import usable_cores

SMALLEST = 1 << 18
"""Bytes of a call below which NumPy's own cost would hide the bandwidth."""

_LARGEST = 1 << 28
_PASS_BYTES = 1 << 25
_SAMPLES = 5
TRIES = 3
"""How often a bandwidth is measured again if a call exceeds it."""


class Roof(NamedTuple):
    """A measured bandwidth in bytes per second, and its description: ``copy of 8.39 MB``."""

    bandwidth: float
    kind: str


_measured: dict[tuple[int, bool], float] = {}


def roof(read_bytes: int, written_bytes: int, *, reached: float = 0.0) -> Roof | None:
    """Returns the bandwidth to compare a call with; None for a small call.

    A call that hardly writes is compared with a sum where a sum is faster than a copy.

    Args:
        read_bytes: Bytes that the call reads.
        written_bytes: Bytes that the call writes.
        reached: Bytes per second of the call. If they exceed the bandwidth, the machine was probably busy during the
            measurement. The bandwidth is then measured again, at most :data:`TRIES` times.
    """
    if read_bytes + written_bytes < SMALLEST:
        return None
    size, reads = rounded(read_bytes, written_bytes)
    best = _measured.get((size, reads), 0.0)
    for attempt in range(TRIES + 1):
        if best == 0.0 or (attempt and best < reached):
            best = max(best, *(rate(size, threads, reads=reads) for threads in {1, len(usable_cores())}))
    _measured[size, reads] = best
    return Roof(best, copy_text(size, reads))


def rounded(read_bytes: int, written_bytes: int) -> tuple[int, bool]:
    """Returns the bytes of the copy to compare a call with, and whether the call hardly writes.

    The bytes are the nearest power of two: if a few bytes of parameters doubled the copy, it might fit no cache.
    """
    size = max(16, read_bytes + written_bytes)
    return min(1 << round(math.log2(size)), _LARGEST), 8 * written_bytes < read_bytes


def copy_text(size: int, reads: bool) -> str:
    """Returns the description of the measurement, such as ``copy of 8.39 MB``."""
    return f"{'read' if reads else 'copy'} of {bytes_text(size)}"


def rate(size: int, threads: int, *, reads: bool = False) -> float:
    """Returns the bytes per second that copies move, in both directions together.

    Args:
        size: Bytes of both arrays together.
        threads: Threads that share the work.
        reads: Whether to sum an array of this size too, and to return the greater rate.
    """
    passes = max(1, _PASS_BYTES // size)
    source, target = np.ones(size // 16), np.zeros(size // 16)
    both = np.ones(size // 8)

    def copy(part: int) -> None:
        source_part, target_part = np.array_split(source, threads)[part], np.array_split(target, threads)[part]
        for _ in range(passes):
            np.copyto(target_part, source_part)

    def add(part: int) -> None:
        source_part = np.array_split(both, threads)[part]
        for _ in range(passes):
            source_part.sum()

    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for work in (copy, add) if reads else (copy,):
            for _ in range(_SAMPLES + 1):  # the first one brings the memory in
                start = time.perf_counter()
                list(pool.map(work, range(threads)))
                best = min(best, time.perf_counter() - start)
    return passes * size / best
