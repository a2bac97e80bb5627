"""Loads the operators of one revision in a separate process, and requires that they come from its own commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from suites.compare.revisions.revision import Revision
from suites.errors import RevisionError

_PROGRAM = Path(__file__).with_name("loaded_files.py")
_SECONDS = 300.0
_SHOWN = 3


def inspect_revision(revision: Revision, root: Path) -> None:
    """Requires that a revision loads its operators, and all tracked files that they import, from its own commit.

    A package of the repository may also be installed, or be imported from the work tree. Then both revisions would run
    the same code, and the comparison would say that nothing has changed.

    Args:
        revision: The revision.
        root: The work tree.

    Raises:
        RevisionError: A file of operators cannot be loaded, the revision is too old, or code comes from elsewhere.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROGRAM), *revision.sources], cwd=revision.folder,
            env=os.environ | revision.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RevisionError(f"{revision}: its operators did not load within {_SECONDS:g} s.") from error
    answer = _answer(done.stdout)
    if answer is None:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RevisionError(f"{revision}: loading its operators ended with exit code {done.returncode}: {lines[-1]}")
    tree = revision.tree
    if answer.get("error"):
        # The reader does not know the temporary folder of the commit.
        message = str(answer["error"]).replace(f"{tree}{os.sep}", "").replace(f"{tree.resolve()}{os.sep}", "")
        raise RevisionError(f"{revision}: {message}")
    strays = [*_installed_copies(answer, tree), *_from_work_tree(answer, tree, root)]
    if strays:
        shown = ", ".join(strays[:_SHOWN]) + (", ..." if len(strays) > _SHOWN else "")
        raise RevisionError(
            f"{revision}: its operators import {shown}, and not the file of the commit. Put the folder of the work tree"
            " that holds this module on PYTHONPATH: then each revision imports it from its own commit."
        )


def _from_work_tree(answer: Mapping[str, object], tree: Path, root: Path) -> list[str]:
    """Returns the loaded files of the work tree, without files of the commit and installed ones that lie in it."""
    allowed = [tree.resolve(), *(Path(str(folder)).resolve() for folder in _list(answer, "installed"))]
    files = (Path(str(file)).resolve() for file in _list(answer, "files"))
    inside = (file for file in files if file.is_relative_to(root))
    return [str(file) for file in inside if not any(file.is_relative_to(folder) for folder in allowed)]


def _installed_copies(answer: Mapping[str, object], tree: Path) -> list[str]:
    """Returns the loaded files of installed packages that the commit also holds: at its top, or in its ``src``."""
    copies = []
    for file in map(str, _list(answer, "files")):
        for library in map(str, _list(answer, "libraries")):
            path = file.removeprefix(f"{library}{os.sep}")
            if path != file and any((tree / folder / path).is_file() for folder in ("", "src")):
                copies.append(file)
    return list(dict.fromkeys(copies))


def _list(answer: Mapping[str, object], name: str) -> list[object]:
    value = answer.get(name)
    return value if isinstance(value, list) else []


def _answer(text: str) -> dict[str, object] | None:
    """Returns the object on the last line. Operators may print while they load."""
    lines = text.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
