"""Ends the processes that a command has started when the command is gone, also if it was killed.

Nothing of a killed process runs, so its children must notice. Their standard input is a pipe that nothing is written
to; it ends when the last process that could write to it is gone.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator

ORPHANED = 75
"""The exit code of a process whose parent is gone."""

_STDIN = 0


@contextlib.contextmanager
def lifeline() -> Iterator[int]:
    """Yields the standard input for processes that shall end with this one."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def end_with_parent() -> None:
    """Ends this process when its standard input ends, if that is a pipe."""
    with contextlib.suppress(OSError):  # it has none
        if stat.S_ISFIFO(os.fstat(_STDIN).st_mode):
            threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    os.read(_STDIN, 1)
    os._exit(ORPHANED)
