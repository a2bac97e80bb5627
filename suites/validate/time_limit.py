"""Ends a check that takes too long, and notes whether the kernel or the check itself took the time."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

_SUITES = Path(__file__).parents[1]
_OWN = (_SUITES, _SUITES.parent / "bridge")
_OF_CHECKS = tuple(_SUITES / name for name in ("numerics", "declare", "checks/drawn"))
"""The folders whose code makes samples and computes the truth of results."""


def watch(seconds: float, note: Path, end: Callable[[], None]) -> Callable[[], None]:
    """Calls ``end`` after some seconds; returns a function that stops the timer.

    It looks at this thread twenty times or more. If the thread was outside of its kernel in more than half of the
    looks, it makes the file ``note``.
    """
    stopped, thread = threading.Event(), threading.get_ident()

    def look() -> None:
        finish, seen = time.monotonic() + seconds, []
        while time.monotonic() < finish:
            if stopped.wait(min(1.0, seconds / 20)):
                return
            seen.append(is_outside_of_kernel(sys._current_frames().get(thread)))
        if 2 * sum(seen) > len(seen):
            note.touch()
        end()

    threading.Thread(target=look, daemon=True).start()
    return stopped.set


def is_outside_of_kernel(frame: FrameType | None) -> bool:
    """Tells whether the innermost function of this project on a stack makes samples or computes truth."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if any(folder in path.parents for folder in _OWN):
            return any(folder in path.parents for folder in _OF_CHECKS)
        frame = frame.f_back
    return False


def note_of(folder: str, nodeid: str) -> Path:
    """Returns the file that exists if a check was ended outside of its kernel."""
    return Path(folder, hashlib.sha256(nodeid.encode()).hexdigest())
