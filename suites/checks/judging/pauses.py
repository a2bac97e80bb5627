"""Pauses the busy threads of this process at moments that nobody chose, so that what they share is seen in mid-use.

Two threads rarely meet in one place. On a busy machine they do not even run at once: each runs for milliseconds while
the others wait. So a thread of Python sends signals to the threads that are running. The handler is a function of the C
library, which sleeps for some microseconds wherever the thread is, also inside a kernel. Meanwhile the others go on.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

_LOOK_S = 0.003
"""How long the list of running threads is used, before it is read again."""

_LEAST_S, _MOST_S = 3e-5, 3e-4
"""The time between two pauses of a thread."""

_lock = threading.Lock()
_installed = False


class Pauses:
    """Pauses running threads inside a ``with`` block, and counts the pauses. It does nothing outside of Linux.

    Attributes:
        count: Pauses so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def possible(self) -> bool:
        """Whether threads can be paused here."""
        return sys.platform.startswith("linux")

    def __enter__(self) -> Pauses:
        if self.possible:
            _install()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        send, process, own = ctypes.CDLL(None).tgkill, os.getpid(), threading.get_native_id()
        moments = random.Random(0)
        running: list[int] = []
        looked = 0.0
        while not self._over.is_set():
            time.sleep(moments.uniform(_LEAST_S, _MOST_S))
            if time.monotonic() - looked > _LOOK_S:
                running, looked = [each for each in _running() if each != own], time.monotonic()
            if running:
                self.count += send(process, moments.choice(running), _signal()) == 0


def _running() -> list[int]:
    """The ids of the threads of this process that run, or would if they had a core."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            # The name of the thread comes first, in parentheses, and may hold anything.
            state = (task / "stat").read_text().rpartition(") ")[2][:1]
        except OSError:  # it has ended
            continue
        if state == "R":
            found.append(int(task.name))
    return found


def _signal() -> int:
    """A signal that nothing else uses; the C library passes its number to the handler: microseconds to sleep."""
    return int(signal.SIGRTMAX) - 3


def _install() -> None:
    """Makes ``usleep`` the handler, for as long as the process lives: a signal may arrive late."""
    global _installed
    with _lock:
        if not _installed:
            library = ctypes.CDLL(None)
            library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
            library.signal(_signal(), ctypes.cast(library.usleep, ctypes.c_void_p))
            _installed = True
