"""Implements ``clean``: deletes the files that this project caches between sessions. Recorded runs stay."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bridge.ffi.native.object_code import cache_folder
from reports.options import Exit


def clean() -> Exit:
    """Deletes machine code. The next call compiles it again."""
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
    for what, names in (("machine code of handlers", "native-*"), ("libraries of cuda_library", "libraries-*")):
        yield from ((what, path) for path in sorted(cache_folder().glob(names)) if path.is_dir())
