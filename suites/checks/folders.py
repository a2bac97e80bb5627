"""Says which files hold checks: every ``test_*.py`` in this folder, and in the folders that the user names."""

from __future__ import annotations

import os
from pathlib import Path

from suites.errors import SelectionError  # not through a room that imports much: the plugin imports this file

VARIABLE = "KERNEL_BRIDGE_CHECKS"
"""The environment variable that names more folders of checks, separated as in ``PATH``."""


class CheckError(SelectionError):
    """A file of checks cannot be used."""


_OWN = Path(__file__).resolve().parent


def folders() -> list[Path]:
    """Returns the folders of checks, the built-in one first.

    Raises:
        CheckError: The variable names something that is no folder, or a folder without a file of checks.
    """
    given = [Path(folder).resolve() for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    for folder in given:
        if not folder.is_dir():
            raise CheckError(f"{VARIABLE}: there is no folder {folder}. Name folders, separated by {os.pathsep!r}.")
        if not any(folder.glob("test_*.py")):
            raise CheckError(f"{VARIABLE}: {folder} holds no test_*.py. A check is one such file; see @check.")
    return list(dict.fromkeys([_OWN, *given]))


def files() -> list[Path]:
    """Returns the files of checks, sorted by folder and name."""
    return [path for folder in folders() for path in sorted(folder.glob("test_*.py"))]


def is_built_in(path: Path) -> bool:
    """Tells whether a file of checks belongs to this package."""
    return path.parent == _OWN
