"""Makes the temporary folders of sessions, and deletes the folders that killed sessions left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "kernel-bridge-"
_MARK = ".session"
"""A locked file in each folder. Folders without it are not ours: a clone in the temporary folder, say."""


def make_folder() -> str:
    """Makes a folder, which the caller deletes. A lock marks it as used for as long as this process lives."""
    for path in abandoned():
        shutil.rmtree(path, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    unlocked = Path(folder, ".new")
    with contextlib.suppress(OSError):  # a file system without locks: then a killed session leaves its folder
        fcntl.flock(os.open(unlocked, os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)
        unlocked.rename(Path(folder, _MARK))
    return folder


def abandoned() -> Iterator[Path]:
    """Yields the folders whose process ended without deleting them."""
    for mark in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_MARK}")):
        try:
            file = os.open(mark, os.O_WRONLY)
        except OSError:
            continue  # it was deleted just now
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        finally:
            os.close(file)
        yield mark.parent
