"""Says which files hold checks: every ``test_*.py`` in this folder, and in the folders that the user names."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "KERNEL_BRIDGE_CHECKS"
"""The environment variable that names more folders of checks, separated as in ``PATH``."""

_OWN = Path(__file__).resolve().parent


def folders() -> list[Path]:
    """Returns the folders of checks, the built-in one first."""
    given = os.environ.get(VARIABLE, "").split(os.pathsep)
    return list(dict.fromkeys([_OWN, *(Path(folder).resolve() for folder in given if folder)]))


def files() -> list[Path]:
    """Returns the files of checks, sorted by folder and name."""
    return [path for folder in folders() for path in sorted(folder.glob("test_*.py"))]


def is_built_in(path: Path) -> bool:
    """Tells whether a file of checks belongs to this package."""
    return path.parent == _OWN
