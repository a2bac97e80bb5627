"""Samples a cell with pytest-benchmark: a pilot decides how many rounds, ``benchmark.pedantic`` runs them.

pytest-benchmark reads its timer before and after each round. Its timer here is a :class:`PerCallClock`, so that its
statistics, and its ``--benchmark-json``, hold seconds of one call for every method of timing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reports import median_relative_error
from suites.bench import two_clocks
from suites.bench.plausible import require_elapsed
from suites.bench.timing_plan import Plan

LEAST_SAMPLES = 30
RELATIVE_ERROR = 0.005
"""The median is known well enough when half its 95 % confidence interval is below this share of it."""

_PILOT_SHARE = 1 / 16
"""Share of the time limit that the pilot of a slow cell may take."""


class PerCallClock:
    """A clock whose differences are seconds of one call.

    It follows the wall clock, divided by the number of calls in a sample. For times that the device measures, only
    :meth:`advance` moves it.
    """

    def __init__(self) -> None:
        self._loops = 1
        self._advanced_s: float | None = None

    def follow_wall(self, loops: int) -> None:
        """Follows the wall clock, for samples of ``loops`` calls."""
        self._loops, self._advanced_s = loops, None

    def stand_still(self) -> None:
        """Stands still between calls of :meth:`advance`."""
        self._advanced_s = 0.0

    def advance(self, seconds: float) -> None:
        """Moves a clock that stands still."""
        assert self._advanced_s is not None
        self._advanced_s += seconds

    def now(self) -> float:
        """Returns the time, in seconds of one call."""
        return two_clocks.wall() / self._loops if self._advanced_s is None else self._advanced_s


@dataclass(frozen=True)
class Rounds:
    """How many rounds to sample.

    Attributes:
        count: The number.
        is_cut: Whether the time limit allows fewer than the noise asks for.
    """

    count: int
    is_cut: bool


def rounds(pilot: Sequence[float], sample_s: float, limit_s: float, *, spent_s: float = 0.0, batch: int = 1) -> Rounds:
    """Decides how many rounds make the median known, from the noise of a pilot.

    With independent noise the error of the median falls by the square root of the number of samples. At least
    :data:`LEAST_SAMPLES` are taken, unless they last longer than three time limits.

    Args:
        pilot: A few samples, in any unit.
        sample_s: How long one sample takes in all.
        limit_s: Seconds that sampling may take.
        spent_s: How many of them the pilot took.
        batch: Samples that are measured together.
    """
    error = median_relative_error(list(pilot))
    needed = len(pilot) * (error / RELATIVE_ERROR) ** 2
    affordable = max(0, int((limit_s - spent_s) / sample_s))
    least = min(LEAST_SAMPLES, int((3 * limit_s - spent_s) / sample_s))
    count = max(1, least, math.ceil(min(needed, affordable)))
    return Rounds(-(-count // batch) * batch, needed > affordable)


def stop_reason(samples: Sequence[float], chosen: Rounds) -> str:
    """Says why sampling ended, as recorded.

    The noise is stable if the samples that the pilot asked for did not lower the error enough. Then the noise is not
    independent, and more samples would not help.
    """
    if median_relative_error(list(samples)) < RELATIVE_ERROR:
        return f"median known to {100 * RELATIVE_ERROR:g} %"
    return "time limit" if chosen.is_cut or len(samples) < LEAST_SAMPLES else "stable noise"


def sample(benchmark: Any, clock: PerCallClock, plan: Plan, limit_s: float) -> tuple[list[float], str]:
    """Times one cell; returns the seconds of a call in each sample, and why sampling ended.

    Args:
        benchmark: The fixture of pytest-benchmark, with ``clock.now`` as its timer.
        clock: The clock.
        plan: How the cell is timed.
        limit_s: Seconds that sampling may take.

    Raises:
        ClockError: Another clock says that the samples took far longer than they claim.
    """
    run: Callable[[], Any]
    if plan.device_seconds is None:
        clock.follow_wall(plan.loops)
        pilot, sample_s = _pilot(lambda: _timed(plan.run), 1, limit_s)
        spent_s = sample_s * len(pilot)
        run = plan.run
    else:
        clock.stand_still()
        spent_s = 0.0
        measured = plan.device_seconds
        pilot, sample_s = _pilot(lambda: next(measured), plan.batch, limit_s)
        seconds = itertools.chain(pilot, measured)  # times of the device need no warm-up, so the pilot counts

        def run() -> None:
            clock.advance(next(seconds))

    chosen = rounds(pilot, sample_s, limit_s, spent_s=spent_s, batch=plan.batch)
    begin = two_clocks.system()
    benchmark.pedantic(run, rounds=chosen.count)
    elapsed = two_clocks.system() - begin
    samples = list(benchmark.stats.stats.data)
    if plan.device_seconds is None:
        require_elapsed(sum(samples) * plan.loops, elapsed)
    return samples, stop_reason(samples, chosen)


def _pilot(take: Callable[[], float], batch: int, limit_s: float) -> tuple[list[float], float]:
    """Takes a few samples; returns them, and how long one takes in all."""
    start = two_clocks.wall()
    taken = [take() for _ in range(batch)]
    while len(taken) < LEAST_SAMPLES and two_clocks.wall() - start < _PILOT_SHARE * limit_s:
        taken.append(take())
    return taken, (two_clocks.wall() - start) / len(taken)


def _timed(run: Callable[[], Any]) -> float:
    start = two_clocks.wall()
    run()
    return two_clocks.wall() - start
