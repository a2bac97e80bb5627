"""Requires that a revision runs its operators, and all files that they import, from its own commit.

A package of the repository may also be installed, or be imported from the work tree. Then both revisions would run the
same code, and the comparison would say that nothing has changed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from suites.compare.revisions.revision import Revision
from suites.errors import RevisionError

_SHOWN = 3


def require_own_files(revision: Revision, files: Sequence[str], root: Path) -> None:
    """Requires that a process of a revision has loaded no file of the repository from elsewhere.

    Args:
        revision: The revision.
        files: The files of all modules that the process has imported.
        root: The work tree.

    Raises:
        RevisionError: Code comes from elsewhere.
    """
    strays = [*_installed_copies(files, revision.tree), *_from_work_tree(files, revision.tree, root)]
    if strays:
        shown = ", ".join(strays[:_SHOWN]) + (", ..." if len(strays) > _SHOWN else "")
        raise RevisionError(
            f"{revision}: its operators import {shown}, and not the file of the commit. Put the folder of the work tree"
            " that holds this module on PYTHONPATH: then each revision imports it from its own commit."
        )


def _from_work_tree(files: Iterable[str], tree: Path, root: Path) -> list[str]:
    """Returns the loaded files of the work tree, without files of the commit and installed ones that lie in it."""
    installed = (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)
    allowed = [tree.resolve(), *(Path(folder).resolve() for folder in installed)]
    inside = (file for file in map(Path.resolve, map(Path, files)) if file.is_relative_to(root))
    return [str(file) for file in inside if not any(file.is_relative_to(folder) for folder in allowed)]


def _installed_copies(files: Iterable[str], tree: Path) -> list[str]:
    """Returns the loaded files of installed packages that the commit also holds: at its top, or in its ``src``."""
    copies = []
    for file in files:
        for library in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
            path = file.removeprefix(f"{library}{os.sep}")
            if path != file and any((tree / folder / path).is_file() for folder in ("", "src")):
                copies.append(file)
    return list(dict.fromkeys(copies))
