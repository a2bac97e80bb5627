"""Makes the temporary folders of a session; the next session deletes those of sessions that were killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "kernel-bridge-"

_NEW_S = 60.0
"""A folder that is younger may belong to a session that has not locked it yet."""


def make_folder() -> str:
    """Makes a folder, which the caller deletes. A lock marks it as used for as long as this process lives."""
    for path in abandoned():
        shutil.rmtree(path, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    return folder


def abandoned() -> Iterator[Path]:
    """Yields the folders whose process ended without deleting them."""
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # no folder, or somebody else's
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = time.time() - os.fstat(file).st_mtime > _NEW_S
        except OSError:
            is_free = False
        finally:
            os.close(file)
        if is_free:
            yield path
