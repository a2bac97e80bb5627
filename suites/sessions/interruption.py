"""Turns Ctrl-C into an exception that reaches the command.

Python raises KeyboardInterrupt wherever the main thread is, and two places lose it. Python ignores the exceptions of
finalizers and of callbacks of the garbage collector. An extension module that is being imported raises another
exception, or ends the process. In these places, the interruption waits.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

LONGEST_WAIT_S = 5.0
"""An import that takes longer is interrupted: a file of the user may compute while it is imported."""

_AGAIN_S = 0.05


class Interruption:
    """Handles SIGINT, from :meth:`install` to the end of the process.

    Attributes:
        happened: Whether there was an interruption.
    """

    def __init__(self) -> None:
        self.happened = False
        self._waits_since: float | None = None
        self._is_repeated = False

    def install(self) -> None:
        """Replaces Python's own handler; another handler stays."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            self._unraisable = sys.unraisablehook
            sys.unraisablehook = self._ignored

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        is_typed_again = self._waits_since is not None and not self._is_repeated
        self._is_repeated = False
        if not is_typed_again and _is_importing(frame):
            self._waits_since = self._waits_since or time.monotonic()
            if time.monotonic() - self._waits_since < LONGEST_WAIT_S:
                self._repeat()
                return
        self._waits_since = None
        raise KeyboardInterrupt

    def _ignored(self, unraisable: Any) -> None:
        if self.happened and issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._waits_since = time.monotonic()
            self._repeat()
        else:
            self._unraisable(unraisable)

    def _repeat(self) -> None:
        timer = threading.Timer(_AGAIN_S, self._send)
        timer.daemon = True
        timer.start()

    def _send(self) -> None:
        self._is_repeated = True
        # It also wakes a main thread that waits for something.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
