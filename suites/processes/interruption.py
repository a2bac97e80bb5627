"""Ends a command on Ctrl-C, SIGTERM and SIGHUP: at once, or by an exception where there is something to clean up."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

_EXIT = 3
"""The exit code of a command that could not run, see :class:`reports.options.Exit`."""


class Interruption:
    """Handles the signals, from :meth:`install` to the end of the process.

    Attributes:
        happened: Whether there was an interruption that raised.
    """

    def __init__(self) -> None:
        self.happened = False
        self._raising = 0

    def install(self) -> None:
        """Replaces Python's own handlers; another handler stays."""
        # A scheduler, or GitHub, ends a job with SIGTERM; a terminal that is closed sends SIGHUP.
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._interrupt)

    @contextlib.contextmanager
    def raises(self) -> Iterator[None]:
        """Lets a signal raise KeyboardInterrupt: the block has processes to end, folders to delete or a run to close.

        Elsewhere a command imports, reads or prints. A library in the middle of its import loses the exception, or
        makes another one of it, so there the signal ends the process.
        """
        self._raising += 1
        try:
            yield
        finally:
            self._raising -= 1

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._raising:
            with contextlib.suppress(OSError):
                os.write(2, b"kernel-bridge: interrupted.\n")
            os._exit(_EXIT)
        self.happened = True
        raise KeyboardInterrupt


INTERRUPTION = Interruption()
"""The handler of this process, which its command line installs."""
