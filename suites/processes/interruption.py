"""Raises KeyboardInterrupt on SIGTERM and SIGHUP, so that the command cleans up as after Ctrl-C."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_MOMENT_S = 0.1


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
        sys.unraisablehook = functools.partial(self._unraisable, sys.unraisablehook)
        sys.excepthook = functools.partial(self._printed, sys.excepthook)

    def _printed(self, report: Callable[..., object], kind: type[BaseException], *details: Any) -> None:
        """Prints no traceback of an interruption: C code that imports a module prints it and goes on."""
        if not issubclass(kind, KeyboardInterrupt):
            report(kind, *details)

    def _unraisable(self, report: Callable[[Any], object], unraisable: Any) -> None:
        """Interrupts again a moment later, where Python lost the exception: a callback of its garbage collector ran."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        again = threading.Timer(_MOMENT_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        raise KeyboardInterrupt


INTERRUPTION = Interruption()
"""The handler of this process, which its command line installs."""
