"""Ends work that takes too long by its own fault: the time in which it waited for a processor does not count.

A machine with much else to do makes every kernel slow, and none wrong. Linux counts for each thread how long it ran,
and how long it waited while others had the processors. Where the system does not tell, only the clock counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reports import Status
from suites.timing.run_header import machine_load

PATIENCE = 10
"""How many times the limit work may last by the clock. Then it is ended without a verdict."""


@dataclass(frozen=True)
class Used:
    """What the threads of a process, and of the processes that it started, have had so far.

    Attributes:
        processor_s: Seconds on a processor, all threads together.
        waited_s: Seconds that each thread has waited for a processor, by its number.
    """

    processor_s: float
    waited_s: dict[str, float]


@dataclass(frozen=True)
class Overtime:
    """Why work is ended: TIMEOUT, or UNCHECKED if the machine may be the cause."""

    status: Status
    reason: str


class TimeLimit:
    """The limit of one piece of work, which begins now.

    Args:
        seconds: The limit.
        pid: The process that does the work.
        clock: Returns the time, in seconds.
        used: Returns what a process has had.
    """

    def __init__(
        self, seconds: float, pid: int, *, clock: Callable[[], float] = time.monotonic,
        used: Callable[[int], Used] | None = None,
    ) -> None:  # fmt: skip
        self.seconds = seconds
        self._pid, self._clock, self._used = pid, clock, used or used_by
        self._begun, self._before = clock(), self._used(pid)

    def overtime(self) -> Overtime | None:
        """Returns why the work has to end now; None if it may go on."""
        elapsed = self._clock() - self._begun
        if elapsed < self.seconds:
            return None
        now = self._used(self._pid)
        processor = now.processor_s - self._before.processor_s
        before = self._before.waited_s
        waited = max((seconds - before.get(thread, 0.0) for thread, seconds in now.waited_s.items()), default=0.0)
        if processor >= self.seconds or elapsed - waited >= self.seconds:
            of_all = "" if elapsed < 1.2 * self.seconds else f" of its own time, {elapsed:.0f} s by the clock"
            return Overtime(Status.TIMEOUT, f"ended after {self.seconds:g} s{of_all}")
        if elapsed < PATIENCE * self.seconds:
            return None
        return Overtime(
            Status.UNCHECKED,
            f"hung or starved: {processor:.0f} s of processor time in {elapsed:.0f} s, load of the machine"
            f" {machine_load() or 0:.1f} on {os.cpu_count()} cores. Use a quieter machine, or a larger --timeout",
        )


def used_by(pid: int) -> Used:
    """Returns what a process and the processes that it started have had; nothing where the system does not tell."""
    processor, waited = 0.0, {}
    for process in _tree(pid):
        try:
            # The name of a program may hold blanks and parentheses.
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            processor += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            for thread in Path(f"/proc/{process}/task").iterdir():
                waited[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or this is no Linux
    return Used(processor, waited)


def _tree(pid: int) -> list[int]:
    """Returns a process and all processes that it started."""
    found = [pid]
    for process in found:
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
        except (OSError, ValueError):
            continue
    return found
