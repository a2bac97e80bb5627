"""Shows how far a session is, and how long it may still take, in the last line of a terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Self

from rich.console import Console

from reports.render.visible import visible

SILENCE_S = 30
"""Seconds after which a session that shows no terminal says how far it is."""


@dataclass
class _Phase:
    done: int = 0
    seconds: float = 0.0


class Progress:
    """The progress of a session on standard error. Each item passes the same phases, such as compiling and timing.

    Args:
        items: What is counted, such as ``cells``. The last phase counts.
        phases: The names of the phases.

    Attributes:
        total: The number of items.
    """

    def __init__(self, items: str, *phases: str) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("starting") if self._console.is_terminal else None
        self._items = items
        self._phases = {phase: _Phase() for phase in phases}
        self.total = 0
        self._begun = self._stepped_at = self._printed_at = time.monotonic()

    def start(self) -> None:
        """Shows the last line from now on."""
        if self._status:
            self._status.start()

    def stop(self) -> None:
        """Takes the last line away."""
        if self._status:
            self._status.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def step(self, phase: str, items: int = 1) -> None:
        """Notes that some items have passed a phase, in the time since the last step."""
        now, own = time.monotonic(), self._phases[phase]
        own.done += items
        own.seconds += now - self._stepped_at
        self._stepped_at = now

    def show(self, text: str) -> None:
        """Shows the progress and what happens now; where there is no terminal, only after a long silence."""
        if self._status:
            self._status.update(visible(f"{self._text()}{text}").replace("[", r"\["))
        elif self.total and time.monotonic() - self._printed_at > SILENCE_S:
            self._printed_at = time.monotonic()
            print(visible(f"kernel-bridge: {self._text()}{text}"), file=sys.stderr, flush=True)

    def print(self, text: str, style: str = "") -> None:
        """Prints a line that stays."""
        self._printed_at = time.monotonic()
        self._console.print(visible(text), style=style, soft_wrap=True, markup=False)

    def _text(self) -> str:
        if not self.total:
            return ""
        *_, last = self._phases.values()
        left = self.left_s()
        about = "" if left is None else f", about {left:.0f} s left"
        return f"{last.done} of {self.total} {self._items}, {time.monotonic() - self._begun:.0f} s{about}: "

    def left_s(self) -> float | None:
        """Returns the seconds that the session may still take; None until an item has passed every phase."""
        phases = self._phases.values()
        if not all(phase.done for phase in phases):
            return None
        return sum(phase.seconds / phase.done * max(0, self.total - phase.done) for phase in phases)
