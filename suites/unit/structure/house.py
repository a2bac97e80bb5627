"""Reads the modules of this project and the imports between them, for the tests of its structure."""

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = ("bridge", "suites", "reports")
_NO_ROOMS = ("suites.unit", "suites.tutorials")
"""Tests and tutorials import from everywhere, as users do."""


@dataclass(frozen=True)
class Module:
    """One file of the project.

    Attributes:
        name: The dotted name; that of the package for an ``__init__.py``.
        path: The file.
    """

    name: str
    path: Path

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def is_face(self) -> bool:
        """Whether it is the ``__init__.py`` of a package."""
        return self.path.name == "__init__.py"


@functools.cache
def modules() -> dict[str, Module]:
    """All modules by name, without unit tests and tutorials."""
    found = {}
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
            parts = path.relative_to(PROJECT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not name.startswith(_NO_ROOMS):
                found[name] = Module(name, path)
    return found


@functools.cache
def imports() -> frozenset[tuple[str, str]]:
    """Pairs of modules, the first of which imports the second, at whatever place in its file."""
    known = modules()
    return frozenset(
        (module.name, target) for module in known.values() for target in _imported(module) if target != module.name
    )


def _imported(module: Module) -> Iterator[str]:
    known = modules()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def room(module: str, folder: str) -> str | None:
    """The file or folder inside ``folder`` (a dotted name) that a module lies in; None if it lies elsewhere.

    The ``__init__.py`` of the folder is a room named ``__init__``.
    """
    if module == folder:
        return "__init__"
    if not module.startswith(f"{folder}."):
        return None
    return module.removeprefix(f"{folder}.").partition(".")[0]


def arrows(folder: str) -> set[tuple[str, str]]:
    """Pairs of rooms of a folder, the first of which imports the second."""
    pairs = ((room(one, folder), room(other, folder)) for one, other in imports())
    return {(one, other) for one, other in pairs if one and other and one != other}


def folders() -> list[str]:
    """The packages, and the folders in them that hold several rooms."""
    return [name for name, module in modules().items() if module.is_face]


def require_no_circle(pairs: Iterable[tuple[str, str]]) -> None:
    """Raises CycleError, with the names, if arrows lead from a name back to it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for one, other in pairs:
        sorter.add(one, other)
    sorter.prepare()
