"""Times a cell in this process, round by round: single calls, or two points of a loop of calls.

Two points are a loop of n calls and one of 4 n calls in one program. The program itself costs a fixed time, which
differs between backends: Python starts it, and the loop copies its outputs. The difference of the two points does not
contain this time. Divided by 3 n, it is the time of one call in a loop.
"""

from __future__ import annotations

import abc
import math
import random
import time
from collections.abc import Sequence
from typing import Any

import jax

from reports import ProcessTimes
from reports.records.measurements import LONGER
from suites.timing.loops import Programs


class Measurement(abc.ABC):
    """The times of one compiled cell, whose inputs lie on the device.

    The cells of a group are measured together: in each round, each of them once, in a random order.

    Attributes:
        method: How time is taken, as recorded.
        cache: State of the caches before a call, as recorded: ``hot`` or ``cold``.
        loops: Calls in the shorter loop of two-point timing; else 1.
        round_s: About how long a round takes, in seconds.
    """

    method: str
    cache: str
    loops: int = 1
    round_s: float = 0.0

    @abc.abstractmethod
    def round(self) -> None:
        """Takes the samples of one round, and keeps them."""

    @abc.abstractmethod
    def times(self) -> ProcessTimes:
        """Returns all samples so far.

        Raises:
            RecordError: There are no samples, or the noise is larger than the calls.
        """

    @abc.abstractmethod
    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the timed program on other inputs on the device; returns its results.

        These inputs replace the timed ones at their addresses, so no round may follow.
        """


_TRIES = 3
_ALONE_S = 2e-4
"""Single calls are repeated in a round up to about this time, at most three times."""


class SingleCalls(Measurement):
    """Times single calls from Python, up to the end of their work: the only way for a cell without a loop.

    Args:
        programs: The compiled programs.
        arguments: The inputs on the device.
    """

    method = "wall"
    cache = "hot"

    def __init__(self, programs: Programs, arguments: Sequence[jax.Array]) -> None:
        self._program, self._arguments = programs.single, list(arguments)
        self.samples_ns: list[float] = []
        self._time()
        least = min(self._time() for _ in range(_TRIES))
        self._calls = max(1, min(_TRIES, round(_ALONE_S / least)))
        self.round_s = self._calls * least

    def round(self) -> None:
        """Makes some calls."""
        self.samples_ns += [_rounded(self._time()) for _ in range(self._calls)]

    def times(self) -> ProcessTimes:
        """Returns the samples."""
        return ProcessTimes(samples_ns=tuple(self.samples_ns))

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Makes a call on other inputs."""
        return self._program(*inputs)

    def _time(self) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self._program(*self._arguments))
        return time.perf_counter() - start


def _rounded(seconds: float) -> float:
    """Returns nanoseconds, in steps of a picosecond: more digits are noise, and double the size of a record."""
    return round(1e9 * seconds, 3)


SHORT_S = 3e-4
"""Least seconds that all calls of the shorter loop should take."""

FIXED_SHARE = 2.0
"""Least time of all calls of the shorter loop, in times of the fixed part of the program."""

LONGEST_S = 0.05
"""Most seconds that the longer loop may take, unless four calls take longer."""

MOST_LOOPS = 1 << 20

_LOOP_TRIES = 3
_AGREED = 2
_STEPS = 24


class TwoPoints(Measurement):
    """Times a cell by two points.

    Args:
        programs: The compiled programs; ``chained`` is not None.
        arguments: The inputs on the device.
        loops: Calls in the shorter loop, if an earlier measurement chose them; else None.
        order: Decides which loop comes first in a round.
    """

    method = "two_points"
    cache = "hot"

    def __init__(
        self, programs: Programs, arguments: Sequence[jax.Array], loops: int | None, order: random.Random
    ) -> None:
        assert programs.chained is not None
        self._chained, self._arguments, self._order = programs.chained, list(arguments), order
        self._time(1)
        self.loops, self.round_s = self._calibrated(1, _AGREED) if loops is None else self._calibrated(loops, 1)
        self._slopes: list[float] = []
        self._short: list[float] = []

    def round(self) -> None:
        """Runs both loops in a random order."""
        if self._order.random() < 0.5:
            short, long = self._time(self.loops), self._time(LONGER * self.loops)
        else:
            long, short = self._time(LONGER * self.loops), self._time(self.loops)
        self._short.append(_rounded(short))
        self._slopes.append(_rounded((long - short) / ((LONGER - 1) * self.loops)))

    def times(self) -> ProcessTimes:
        """Returns the samples. Single samples may be below zero, but not their median."""
        return ProcessTimes(
            samples_ns=tuple(self._slopes),
            loops=self.loops,
            program_ns=tuple(self._short),
        )

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the loop on other inputs."""
        return self._chained(self.loops, inputs)

    def _time(self, loops: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self._chained(loops, self._arguments))
        return time.perf_counter() - start

    def _calibrated(self, loops: int, tries: int) -> tuple[int, float]:
        """Returns the calls in the shorter loop, at least ``loops``, and about how long a round takes.

        Each try takes the least of several times, and the search ends when several tries in a row agree that there are
        enough calls. If one try could end the search, an interruption by the operating system could end it too early.

        Args:
            loops: Calls to begin with.
            tries: How many tries must agree.
        """
        count, agreed = loops, 0
        short = long = math.inf
        for _ in range(_STEPS):
            short, long = min(short, self._least(count)), min(long, self._least(LONGER * count))
            call = max((long - short) / ((LONGER - 1) * count), 0.01 * long / (LONGER * count))
            fixed = max(0.0, short - count * call)
            wanted = max(SHORT_S, FIXED_SHARE * fixed) / call
            wanted = min(wanted, max(1.0, LONGEST_S / (LONGER * call)), MOST_LOOPS)
            agreed = agreed + 1 if count >= 0.75 * wanted else 0
            if agreed == tries:
                break
            if not agreed:
                count = min(8 * count, max(count + 1, round(wanted)))
                short = long = math.inf
        return count, short + long

    def _least(self, loops: int) -> float:
        return min(self._time(loops) for _ in range(_LOOP_TRIES))
