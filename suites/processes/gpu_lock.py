"""Keeps two commands from timing on one GPU at the same time: each waits until the one before has ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_AGAIN_S = 1.0


class GpuLock:
    """The lock of one command; the system releases it when the process ends, however it ends."""

    def __init__(self) -> None:
        self._file: int | None = None

    def take(self, uuid: str | None, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> None:
        """Waits until no other command times on a GPU; a second call does nothing.

        Args:
            uuid: The identity of the GPU; None for a CPU, on which nothing is locked.
            say: Is called with a line that says for whom the command waits.
            sleep: Waits for some seconds.
        """
        if uuid is None or self._file is not None:
            return
        path = Path(tempfile.gettempdir(), f"kernel-bridge-{uuid}.lock")
        try:
            with contextlib.suppress(FileExistsError):
                made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(made, 0o666)  # the next one may be another user's
                os.close(made)
            mode = os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
            file = os.open(path, mode | os.O_NOFOLLOW)  # all users write to this folder: a link may lead to our files
        except OSError as error:
            say(f"kernel-bridge: {path}: cannot be locked, {error.strerror}; another command may time on this GPU too")
            return
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    holder = path.read_text(encoding="utf-8", errors="replace").strip() or "another command"
                    say(f"kernel-bridge: waiting for {holder}, which times on {uuid}")
                waited = True
                sleep(_AGAIN_S)
        self._file = file
        with contextlib.suppress(OSError):  # a file of another user may only be read
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} ({' '.join(sys.argv)[:200]})\n".encode(), 0)

    def release(self) -> None:
        """Lets the next command time; a second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
