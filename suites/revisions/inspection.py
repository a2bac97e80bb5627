"""Looks at one side of a comparison in a process of its own: do its operators load, and from its own commit?"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.errors import RevisionError

_PROGRAM = Path(__file__).with_name("loaded_files.py")
_SECONDS = 300.0
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Start:
    """How the processes of a side are started.

    Attributes:
        python: The Python.
        variables: Environment variables of the processes, in place of the same ones of this process.
        sources: Files and modules with operators; none for the built-in operators.
        folder: The working folder.
    """

    python: Path
    variables: Mapping[str, str]
    sources: Sequence[str]
    folder: Path


@dataclass(frozen=True)
class Inspected:
    """What a side says of itself.

    Attributes:
        package: The folder of the package ``suites`` in its environment.
        protocol: The number of the messages by which its timing processes are conducted; None if it knows none.
    """

    package: Path
    protocol: int | None


def inspect_side(start: Start, tree: Path, root: Path, name: str) -> Inspected:
    """Requires that a side loads its operators, and what the repository tracks from its own commit only.

    A package of the repository may also be installed, or be imported from the work tree. Then both sides would run the
    same code, and the comparison would say that nothing has changed.

    Args:
        start: How its processes are started.
        tree: The folder with the files of its commit.
        root: The work tree.
        name: The name of the side in messages.

    Raises:
        RevisionError: A file of operators cannot be loaded, the revision is too old, or code comes from elsewhere.
    """
    try:
        done = subprocess.run(
            [str(start.python), "-P", str(_PROGRAM), *start.sources], cwd=start.folder,
            env=os.environ | dict(start.variables), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RevisionError(f"{name}: its operators did not load within {_SECONDS:g} s.") from error
    except OSError as error:
        raise RevisionError(f"{name}: {start.python} cannot be started ({error.strerror}).") from error
    answer = _answer(done.stdout)
    if answer is None:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RevisionError(f"{name}: loading its operators ended with exit code {done.returncode}: {lines[-1]}")
    if answer.get("error"):
        # Where the files lie for the comparison says nothing to the reader.
        said = str(answer["error"]).replace(f"{tree}{os.sep}", "").replace(f"{tree.resolve()}{os.sep}", "")
        raise RevisionError(f"{name}: {said}")
    strays = [*_installed_copies(answer, tree), *_from_work_tree(answer, tree, root)]
    if strays:
        shown = ", ".join(strays[:_SHOWN]) + (", ..." if len(strays) > _SHOWN else "")
        raise RevisionError(
            f"{name}: its operators import {shown}, and not the file of the commit. Put the folder of the work tree"
            " that holds this module on PYTHONPATH: then each side imports it from its own commit."
        )
    protocol = answer.get("protocol")
    return Inspected(Path(str(answer["package"])), protocol if isinstance(protocol, int) else None)


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
