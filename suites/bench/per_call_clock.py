"""Hands samples that were taken before to pytest-benchmark, whose statistics and JSON then are seconds of one call.

The cells of a contest are timed in turns, and one fixture of pytest-benchmark knows one cell. So the turns come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PerCallClock:
    """A clock for pytest-benchmark, which stands still but for :meth:`replay`."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> float:
        """Returns the time, in seconds of one call."""
        return self._seconds

    def replay(self, benchmark: Any, samples_ns: Sequence[float]) -> None:
        """Lets the fixture of pytest-benchmark, with :meth:`now` as its timer, see one round for each sample.

        Args:
            benchmark: The fixture.
            samples_ns: Nanoseconds of one call.
        """
        samples = iter(samples_ns)

        def advance() -> None:
            self._seconds += 1e-9 * next(samples)

        benchmark.pedantic(advance, rounds=len(samples_ns))
