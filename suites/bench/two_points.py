"""Times calls on a CPU by two points: a loop of n calls and one of 4 n calls in one program.

The program itself costs a fixed time, which differs between backends: it is started from Python, and it copies what it
carries. The difference of the two points has no such part. Divided by 3 n, it is the time of one call in a loop.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import jax

from reports import ProcessTimes
from reports.records.measurements import LONGER
from suites.bench import two_clocks
from suites.bench.measurement import Measurement
from suites.bench.plausible import require_elapsed
from suites.bench.single_calls import SingleCalls
from suites.bench.timed_programs import Programs

SHORT_S = 3e-4
"""How long the calls of the shorter loop should take together, at least."""

FIXED_SHARE = 2.0
"""How many times as long as the fixed part of the program the calls of the shorter loop should take."""

LONGEST_S = 0.05
"""How long the longer loop may take, unless four calls take longer."""

MOST_LOOPS = 1 << 20

_TRIES = 3
_AGREED = 2
_STEPS = 24


class TwoPoints(Measurement):
    """Times a cell by two points, and single calls beside it.

    Args:
        programs: The compiled programs; ``chained`` is not None.
        arguments: The inputs on the device.
        loops: Calls in the shorter loop, as far as they are known from before.
        order: Decides which loop comes first in a round.
    """

    method = "two_points"
    cache = "hot"

    def __init__(
        self, programs: Programs, arguments: Sequence[jax.Array], loops: int | None, order: random.Random
    ) -> None:
        assert programs.chained is not None
        self._chained, self._arguments, self._order = programs.chained, list(arguments), order
        self._alone = SingleCalls(programs, arguments)
        self._time(1)
        self.loops, self.round_s = self._calibrated(1, _AGREED) if loops is None else self._calibrated(loops, 1)
        self._slopes: list[float] = []
        self._short: list[float] = []
        self._claimed: list[float] = []
        self._elapsed: list[float] = []

    def round(self) -> None:
        """Runs both loops in a random order, and some single calls."""
        begin = two_clocks.system()
        if self._order.random() < 0.5:
            short, long = self._time(self.loops), self._time(LONGER * self.loops)
        else:
            long, short = self._time(LONGER * self.loops), self._time(self.loops)
        self._elapsed.append(two_clocks.system() - begin)
        self._claimed.append(short + long)
        self._short.append(1e9 * short)
        self._slopes.append(1e9 * (long - short) / ((LONGER - 1) * self.loops))
        self._alone.round()

    def times(self) -> ProcessTimes:
        """Returns the samples; single ones may be below zero, their median may not.

        Raises:
            ClockError: Another clock says that every round takes far longer than it claims. One round is enough to
                trust the clock: the operating system may interrupt the others between the two clocks.
        """
        rounds = zip(self._claimed, self._elapsed, strict=True)
        require_elapsed(*min(rounds, key=lambda each: each[1] / each[0], default=(0.0, 0.0)))
        return ProcessTimes(
            samples_ns=self._slopes,
            loops=self.loops,
            program_ns=self._short,
            alone_ns=self._alone.cold_ns,
            alone_warm_ns=self._alone.warm_ns,
        )

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the loop on other inputs."""
        return self._chained(self.loops, inputs)

    def _time(self, loops: int) -> float:
        start = two_clocks.wall()
        jax.block_until_ready(self._chained(loops, self._arguments))
        return two_clocks.wall() - start

    def _calibrated(self, loops: int, tries: int) -> tuple[int, float]:
        """Returns calls in the shorter loop, at least ``loops``, and about how long a round takes.

        Each try takes the least of several times, and the search ends when several tries in a row agree that there are
        enough calls. One that the operating system interrupts would end it early, with far too few.

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
        return count, short + long + self._alone.round_s

    def _least(self, loops: int) -> float:
        return min(self._time(loops) for _ in range(_TRIES))
