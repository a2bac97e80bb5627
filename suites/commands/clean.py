"""Implements ``clean``: deletes the files that this project caches between sessions. Recorded runs stay."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bridge.ffi.native.object_code import cache_folder
from reports.options import Exit


def clean() -> Exit:
    """Deletes the machine code of handlers. The next call compiles it again."""
    failed = False
    for what, path in _folders():
        size = sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            print(f"{path} ({what}): cannot be deleted", file=sys.stderr)
            failed = True
        else:
            print(f"deleted {path} ({what}, {size / 1e6:.1f} MB)")
    return Exit.COULD_NOT_RUN if failed else Exit.FINE


def _folders() -> Iterator[tuple[str, Path]]:
    # Only folders with names of this project: the user can choose any folder as the cache.
    natives = sorted(cache_folder().glob("native-*"))
    yield from (("machine code of handlers", path) for path in natives if path.is_dir())
