"""Identifies the code of a run by its content: a run is only continued with the code that began it."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from suites.cells import catalogue
from suites.checks import folders

_PROJECT = Path(__file__).parents[2]
_PACKAGES = ("bridge", "reports", "suites")
_SUFFIXES = {".py", ".cc", ".cu", ".h", ".ini"}
_NOT_RUN = ("unit", "tutorials", "published", "__pycache__")


def code_digest() -> str:
    """Returns the SHA-256 of the files of this project, of the operators and checks in use, and of what they import.

    Modules of Python itself and of installed packages do not count: the header of a run has their versions.
    """
    digest = hashlib.sha256()
    users = {path.resolve() for path in [*catalogue.files(), *_users_modules(), *_users_checks()]}
    for path in [*sorted(_own_files()), *sorted(users)]:
        name = path.relative_to(_PROJECT) if path.is_relative_to(_PROJECT) else path.name
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _own_files() -> Iterator[Path]:
    for package in _PACKAGES:
        for path in (_PROJECT / package).rglob("*"):
            if path.suffix in _SUFFIXES and not set(_NOT_RUN) & set(path.relative_to(_PROJECT).parts):
                yield path


def _users_modules() -> Iterator[Path]:
    """Yields the files of imported modules that are neither this project's, nor Python's, nor installed."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    installed |= {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    own = [_PROJECT / package for package in _PACKAGES]
    for module in list(sys.modules.values()):
        # A module may compute its attributes, and fail.
        file = module.__dict__.get("__file__") if hasattr(module, "__dict__") else None
        path = Path(file).resolve() if isinstance(file, str) else None
        if path is None or path.suffix != ".py" or not path.is_file() or path.name == "conftest.py":
            continue
        if not _is_in(path, [*installed, *own]):
            yield path


def _users_checks() -> list[Path]:
    return [path for path in folders.files() if not folders.is_built_in(path)]


def _is_in(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)
