"""Times transfers of memory on a number of threads: the measuring rod for the bandwidth of a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from suites.bench.memory_kernels import ARRAYS, GRAIN, kernel

_SKEW = 17 * 64  # between the starts of arrays: addresses with equal low bits would let loads wait for stores
_PAGE = 4096
_PASS_S = 2e-3
"""How long one sample takes at least, in one pass or in several."""


@dataclass(frozen=True)
class HostTransfer:
    """One way to move memory.

    Attributes:
        pattern: ``copy``, ``read``, ``triad`` (reads two arrays, writes one) or ``write``.
        method: One of :data:`suites.bench.memory_kernels.METHODS`.
        working_set: Bytes of all arrays together, roughly.
        threads: How many threads share the work. After each pass all wait for the last.
    """

    pattern: str
    method: str
    working_set: int
    threads: int


def rate(transfer: HostTransfer, seconds: float) -> float:
    """Returns the fastest rate, in bytes per second, of samples that take so long together.

    The memory goes back to the operating system at the end, also in a process that keeps freed memory.
    """
    with _arrays(transfer) as (addresses, size):
        moved = len(addresses) * size
        once = _seconds(transfer, addresses, size, 1)
        passes = max(1, min(100_000, int(_PASS_S / once)))
        best, end = passes * moved / _seconds(transfer, addresses, size, passes), time.perf_counter() + seconds
        while time.perf_counter() < end:
            best = max(best, passes * moved / _seconds(transfer, addresses, size, passes))
    return best


@contextlib.contextmanager
def _arrays(transfer: HostTransfer) -> Generator[tuple[list[int], int]]:
    """Yields the addresses of arrays that hold data, the target first, and the size of each."""
    count = sum(ARRAYS[transfer.pattern])
    grain = GRAIN * transfer.threads
    size = max(grain, transfer.working_set // count // grain * grain)
    stride = -(-size // _PAGE) * _PAGE + _SKEW
    memory = mmap.mmap(-1, count * stride)
    try:
        with contextlib.suppress(AttributeError, OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)  # the roof is what the hardware can do
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        addresses = [base + index * stride for index in range(count)]
        for address in addresses:  # each thread touches its part first, so that it lies near to its core
            _seconds(HostTransfer("write", "stores", size, transfer.threads), [address], size, 1)
        yield addresses, size
    finally:
        memory.close()


def _seconds(transfer: HostTransfer, addresses: list[int], size: int, passes: int) -> float:
    """Returns how long all threads take to go through the arrays a number of times."""
    move = kernel(transfer.pattern, transfer.method)
    reads, writes = ARRAYS[transfer.pattern]
    sources = addresses[writes:]
    target, first, second = addresses[0], sources[0] if sources else 0, sources[1] if reads > 1 else 0
    counter = np.zeros(1, np.int64)
    share = size // transfer.threads

    def part(thread: int) -> None:
        begin = thread * share
        move(target + begin, first + begin, second + begin, share, passes, counter.ctypes.data, transfer.threads)

    return _at_once(part, transfer.threads)


def _at_once(work: Callable[[int], Any], threads: int) -> float:
    """Runs the work of each thread; returns the time from the first start to the last end."""
    spans: list[tuple[float, float]] = []
    ready = threading.Barrier(threads)

    def run(thread: int) -> None:
        ready.wait()
        start = time.perf_counter()
        work(thread)
        spans.append((start, time.perf_counter()))

    others = [threading.Thread(target=run, args=(thread,)) for thread in range(1, threads)]
    for each in others:
        each.start()
    run(0)
    for each in others:
        each.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)
