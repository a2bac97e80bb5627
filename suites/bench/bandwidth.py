"""Measures the memory bandwidth of the CPU: the roof that kernels are compared with.

The roof of a cell depends on where its data lies, and on how much of the traffic is written. It is therefore measured
for working sets of each level of the memory hierarchy, hot as in the timed loop, and for patterns that read only, read
two arrays and write one, copy, or write only. The fastest of several loops and numbers of threads counts: no right
kernel should be faster.

A busy machine lowers a measurement, and nothing raises it. So each roof is measured again in the course of a session,
and the best counts.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from suites.bench.host_memory import available_bytes
from suites.bench.memory_kernels import ARRAYS, METHODS
from suites.bench.memory_transfers import HostTransfer, rate
from suites.bench.usable_cores import usable_cores

LEVELS = ("L1", "L2", "L3", "partly L3", "memory")

MOST_BYTES = 1 << 30
"""Memory that a measurement takes at most; less where less than eight times as much is available."""

STALE_S = 20.0
"""Seconds after which a roof is measured again, when it is needed."""

TRIES = 5
"""How many times more a roof is measured that a call exceeds."""

_LEAST_BYTES = 16 << 20
_TRIAL_S, _FINAL_S = 0.01, 0.04
_BEYOND = 4  # times the last cache: then it hardly matters
_SAME_SHARE = 0.04
"""Shares of written bytes that differ by less have one pattern."""


def level_of(working_set_bytes: int) -> str:
    """Returns the level of the memory hierarchy that holds a working set: one of :data:`LEVELS`.

    A working set that fits in the private caches of all cores together, but not of one, belongs to the next level:
    only kernels on several threads have it there. ``partly L3`` is up to four times the third level.
    """
    sizes = cache_bytes()
    ends = [*sizes.values(), _BEYOND * sizes["L3"]]
    return next((name for name, end in zip(LEVELS, ends, strict=False) if working_set_bytes <= end), "memory")


@functools.cache
def cache_bytes() -> dict[str, int]:
    """Returns the sizes of the caches of data by level; 32 KiB, 1 MiB and 32 MiB if Linux does not tell."""
    sizes = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            level, size, kind = ((index / name).read_text().strip() for name in ("level", "size", "type"))
            if f"L{level}" in sizes and kind != "Instruction":
                sizes[f"L{level}"] = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    sizes["L2"] = max(sizes["L1"], sizes["L2"])
    sizes["L3"] = max(sizes["L2"], sizes["L3"])  # a machine without a third level
    return sizes


class Roof(NamedTuple):
    """A measured bandwidth in bytes per second, and what was measured: ``copy, memory`` or ``read, L2 cache``."""

    bandwidth: float
    kind: str


@dataclass
class _Known:
    """What is known of one roof: its best rate in each measurement, when the last one was, and the fastest ways."""

    rates: list[float] = field(default_factory=list)
    when: float = 0.0
    fastest: list[HostTransfer] = field(default_factory=list)


class Roofs:
    """The roofs of this machine, each of which is measured when it is needed.

    Args:
        rate: Measures a transfer for so many seconds, see :func:`suites.bench.memory_transfers.rate`.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self, rate: Callable[[HostTransfer, float], float] = rate, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = rate, clock
        self._known: dict[tuple[str, str], _Known] = {}

    def roof(self, read_bytes: int, written_bytes: int, *, reached: float = 0.0) -> Roof:
        """Returns the roof of a call: the faster one of the two patterns with a little more and less to write.

        Args:
            read_bytes: Bytes that the call reads.
            written_bytes: Bytes that it writes.
            reached: Bytes per second of the call. As long as they exceed the roof, the machine was probably busy when
                the roof was measured: then it is measured again, at most :data:`TRIES` times.
        """
        level = level_of(read_bytes + written_bytes)
        where = level if level == "memory" else f"{level} cache"
        patterns = patterns_of(read_bytes, written_bytes)
        for pattern in patterns:
            known = self._known.get((level, pattern))
            if known is None or self._clock() - known.when > STALE_S:
                self.measure(level, pattern)
        for attempt in range(TRIES + 1):
            best = max(Roof(self.best(level, pattern), f"{pattern}, {where}") for pattern in patterns)
            if reached <= best.bandwidth or attempt == TRIES:
                break
            for pattern in patterns:
                self.measure(level, pattern)
        return best

    def measure(self, level: str, pattern: str) -> float:
        """Measures a roof once more; returns the best rate so far, in bytes per second.

        The first time tries all ways, which takes up to a second; later ones take the way that was the fastest for
        each number of threads.

        Args:
            level: One of :data:`LEVELS`.
            pattern: ``read``, ``triad``, ``copy`` or ``write``.
        """
        known = self._known.setdefault((level, pattern), _Known())
        if not known.fastest:
            rates = {each: self._rate(each, _TRIAL_S) for each in transfers(level, pattern)}
            # The best for each number of threads: on a busy machine several threads may wait for a core for a while.
            by_rate = sorted(rates, key=rates.__getitem__)
            known.fastest = list({each.threads: each for each in by_rate}.values())
        known.rates.append(max(self._rate(each, _FINAL_S) for each in known.fastest))
        known.when = self._clock()
        return self.best(level, pattern)

    def best(self, level: str, pattern: str) -> float:
        """Returns the best rate of a roof that was measured."""
        return max(self._known[level, pattern].rates)

    def spread(self, level: str, pattern: str) -> float:
        """Returns how far the worst measurement of a roof lies below the best, as a share of the best."""
        return 1 - min(self._known[level, pattern].rates) / self.best(level, pattern)


ROOFS = Roofs()
"""The roofs that this process has measured."""


def roof(read_bytes: int, written_bytes: int, *, reached: float = 0.0) -> Roof:
    """Returns :meth:`Roofs.roof` of this process."""
    return ROOFS.roof(read_bytes, written_bytes, reached=reached)


def patterns_of(read_bytes: int, written_bytes: int) -> list[str]:
    """Returns the pattern with this share of written bytes; if there is none, the ones with less and with more."""
    share = written_bytes / max(1, read_bytes + written_bytes)
    shares = {pattern: writes / (reads + writes) for pattern, (reads, writes) in ARRAYS.items()}
    alike = [pattern for pattern, each in shares.items() if abs(each - share) < _SAME_SHARE]
    if alike:
        return alike
    less = max((each for each in shares.items() if each[1] < share), key=lambda each: each[1])
    more = min((each for each in shares.items() if each[1] > share), key=lambda each: each[1])
    return [less[0], more[0]]


def transfers(level: str, pattern: str) -> list[HostTransfer]:
    """Returns the ways to move data of a level: all methods, working sets from the next smaller cache on, threads."""
    # A streaming store goes to memory, wherever the data lies.
    methods = [each for each in METHODS[pattern] if each != "streaming" or level in LEVELS[-2:]]
    threads = _numbers_of_threads()
    return [
        HostTransfer(pattern, method, size, count)
        for method in methods
        for size in working_sets(level)
        for count in threads
        if count == 1 or size // count >= _SMALLEST_SHARE
    ]


def working_sets(level: str) -> list[int]:
    """Returns the working sets of a level in bytes; of memory, as far beyond the caches as the memory allows."""
    sizes = cache_bytes()
    l1, l2, l3 = sizes.values()
    # Part of a set that hardly exceeds a cache still lies in it; calls of that size have it there too.
    sets = {
        "L1": (l1 // 4, l1 // 2, 3 * l1 // 4),
        "L2": (5 * l1 // 4, 4 * l1, l2 // 2),
        "L3": (5 * l2 // 4, l3 // 8, l3 // 4),
        "partly L3": (5 * l3 // 4, 2 * l3),
        "memory": (_BEYOND * l3, 2 * _BEYOND * l3),
    }[level]
    return sorted({min(each, _allowed_bytes()) for each in sets})


_SMALLEST_SHARE = 8 << 10
"""Bytes below which a part of the work is no work for a thread of its own."""


def _numbers_of_threads() -> list[int]:
    cores = len(usable_cores())
    return sorted({1, max(1, cores // 4), max(1, cores // 2), cores})


def _allowed_bytes() -> int:
    available = available_bytes()
    return MOST_BYTES if available is None else min(MOST_BYTES, max(_LEAST_BYTES, available // 8))
