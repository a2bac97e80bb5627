"""Reads and writes the folder of files that outlive a process. Several processes may do so at once."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import platformdirs

VARIABLE = "KERNEL_BRIDGE_CACHE_DIR"
"""The environment variable with the folder for files that outlive a process; by default, one in the user's cache."""


def cache_folder() -> Path:
    """The folder, which may not exist."""
    return Path(os.environ.get(VARIABLE) or platformdirs.user_cache_path("kernel-bridge", appauthor=False))


def can_keep_files() -> bool:
    """Whether files can be written to the folder, which is made if it is missing."""
    folder = cache_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.access(folder, os.W_OK | os.X_OK)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file so that readers see the old or the new one, never a part.

    Raises:
        OSError: It cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def keep_latest(folder: Path, suffix: str, count: int) -> None:
    """Deletes all but the latest files with a suffix.

    Raises:
        OSError: The folder cannot be read, or a file cannot be deleted.
    """
    entries = [entry for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    if len(entries) > count:
        with contextlib.suppress(FileNotFoundError):  # another process deletes them too
            for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime)[: len(entries) - count]:
                Path(entry.path).unlink(missing_ok=True)
