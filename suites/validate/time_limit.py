"""Ends a check that takes too long, and notes whether the kernel or the check itself took the time."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from reports import Status
from suites.processes.time_limit import Overtime, TimeLimit

_SUITES = Path(__file__).parents[1]
_OWN = (_SUITES, _SUITES.parent / "bridge")
_OF_CHECKS = tuple(_SUITES / name for name in ("numerics", "declare", "checks/drawn"))
"""The folders whose code makes samples and computes the truth of results."""

_OUTSIDE = (
    "{:g} s were not enough: the truth of the results took most of them, not the kernel. Pass a larger --timeout, a"
    " faster reference, or truth="
)


def watch(seconds: float, note: Path | None, end: Callable[[], None]) -> Callable[[], None]:
    """Calls ``end`` when a check has had its time; returns a function that stops the timer.

    It looks at this thread twenty times or more. The file ``note`` then says how the check ended: as UNCHECKED if the
    thread was outside of its kernel in more than half of the looks, or if the machine may be the cause.
    """
    stopped, thread = threading.Event(), threading.get_ident()
    limit = TimeLimit(seconds, os.getpid())

    def look() -> None:
        seen: list[bool] = []
        while (over := limit.overtime()) is None:
            if stopped.wait(min(1.0, seconds / 20)):
                return
            seen.append(is_outside_of_kernel(sys._current_frames().get(thread)))
        if over.status is Status.TIMEOUT and 2 * sum(seen) > len(seen):  # the kernel is not to blame
            over = Overtime(Status.UNCHECKED, _OUTSIDE.format(seconds))
        if note is not None:
            note.write_text(f"{over.status}\n{over.reason}", encoding="utf-8")
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
    """Returns the file that says why a check was ended."""
    return Path(folder, hashlib.sha256(nodeid.encode()).hexdigest())


def read_note(note: Path) -> Overtime | None:
    """Returns why a check was ended; None if it was not."""
    if not note.exists():
        return None
    status, _, reason = note.read_text(encoding="utf-8").partition("\n")
    return Overtime(Status(status), reason)
