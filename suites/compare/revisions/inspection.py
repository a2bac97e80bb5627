"""Looks at one side of a comparison in a process of its own: do its operators load, and from its own commit?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from suites.compare.revisions.side import Side
from suites.errors import RevisionError

_PROGRAM = Path(__file__).with_name("loaded_files.py")
_SECONDS = 300.0
_SHOWN = 3


def inspect_side(side: Side, root: Path) -> None:
    """Requires that a side loads its operators, and what the repository tracks from its own commit only.

    A package of the repository may also be installed, or be imported from the work tree. Then both sides would run the
    same code, and the comparison would say that nothing has changed.

    Args:
        side: The side.
        root: The work tree.

    Raises:
        RevisionError: A file of operators cannot be loaded, the revision is too old, or code comes from elsewhere.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROGRAM), *side.sources], cwd=side.folder,
            env=os.environ | side.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RevisionError(f"{side}: its operators did not load within {_SECONDS:g} s.") from error
    answer = _answer(done.stdout)
    if answer is None:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RevisionError(f"{side}: loading its operators ended with exit code {done.returncode}: {lines[-1]}")
    if answer.get("error"):
        # Where the files lie for the comparison says nothing to the reader.
        said = str(answer["error"]).replace(f"{side.tree}{os.sep}", "").replace(f"{side.tree.resolve()}{os.sep}", "")
        raise RevisionError(f"{side}: {said}")
    strays = [*_installed_copies(answer, side.tree), *_from_work_tree(answer, side.tree, root)]
    if strays:
        shown = ", ".join(strays[:_SHOWN]) + (", ..." if len(strays) > _SHOWN else "")
        raise RevisionError(
            f"{side}: its operators import {shown}, and not the file of the commit. Put the folder of the work tree"
            " that holds this module on PYTHONPATH: then each side imports it from its own commit."
        )


def _from_work_tree(answer: Mapping[str, object], tree: Path, root: Path) -> list[str]:
    """Returns the files of the work tree that were loaded. Files of the commit, and installed ones, may lie in it."""
    held = [tree.resolve(), *(Path(str(place)).resolve() for place in _list(answer, "installed"))]
    found = (Path(str(file)).resolve() for file in _list(answer, "files"))
    inside = (file for file in found if file.is_relative_to(root))
    return [str(file) for file in inside if not any(file.is_relative_to(place) for place in held)]


def _installed_copies(answer: Mapping[str, object], tree: Path) -> list[str]:
    """Returns the loaded files of installed packages that the commit holds too: at its top, or in its ``src``."""
    found = []
    for file in map(str, _list(answer, "files")):
        for place in map(str, _list(answer, "libraries")):
            path = file.removeprefix(f"{place}{os.sep}")
            if path != file and any((tree / folder / path).is_file() for folder in ("", "src")):
                found.append(file)
    return list(dict.fromkeys(found))


def _list(answer: Mapping[str, object], name: str) -> list[object]:
    value = answer.get(name)
    return value if isinstance(value, list) else []


def _answer(text: str) -> dict[str, object] | None:
    """Returns the object on the last line. Operators may print while they load."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
