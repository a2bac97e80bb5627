"""Raises KeyboardInterrupt on SIGTERM and SIGHUP, so that the command cleans up as after Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType


class Interruption:
    """Handles the signals, from :meth:`install` to the end of the process.

    Attributes:
        happened: Whether there was an interruption.
    """

    def __init__(self) -> None:
        self.happened = False

    def install(self) -> None:
        """Replaces Python's own handlers; another handler stays."""
        # A scheduler, or GitHub, ends a job with SIGTERM; a terminal that is closed sends SIGHUP.
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        raise KeyboardInterrupt
