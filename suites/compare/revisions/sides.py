"""Makes the two sides of a comparison: which operators of which commit run, and from which files.

Both sides have this Python. The operators of each come from the files of its commit, and in a checkout of this project
the project itself too.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suites.cells.selection import Selection
from suites.compare.revisions import inspection
from suites.compare.revisions.repository import SHORT, Repository
from suites.compare.revisions.side import BASE, HEAD, Side
from suites.errors import RevisionError

_HERE = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(r"^(from|import) suites\b", re.MULTILINE)
_DECLARATION = re.compile(r"\b(Operator|operator_of)\(")


@dataclass(frozen=True)
class Sides:
    """Both sides of a comparison.

    Attributes:
        base: The older one.
        head: The newer one.
        sources: The operators as a reader knows them: paths from the root of the repository, or modules.
        notes: What a reader should know of the comparison, a sentence each.
    """

    base: Side
    head: Side
    sources: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Request:
    repository: Repository
    commits: tuple[str, str]
    selection: Selection
    scratch: Path
    notes: list[str] = field(default_factory=list)


def repository_of(selection: Selection) -> Repository:
    """Returns the repository whose revisions are compared: it holds the operators, or else the current folder.

    Raises:
        RevisionError: There is none, or the operators lie in several.
    """
    files = [Path(source) for source in selection.sources if _is_file(source)]
    for file in files:
        if not file.parent.is_dir():
            raise RevisionError(f"{file}: there is no such folder.")
    found = list(dict.fromkeys(Repository.around(file.resolve()) for file in files)) or [Repository.around(Path.cwd())]
    if len(found) > 1:
        raise RevisionError(f"the operators lie in {len(found)} repositories: {found[0].root}, {found[1].root}.")
    return found[0]


def make_sides(
    repository: Repository, base: str, head: str, selection: Selection, scratch: Path, *, takes_changes: bool = False
) -> Sides:
    """Makes both sides ready to run, and looks at each once: its operators load, and from its own commit.

    Args:
        repository: The repository, see :func:`repository_of`.
        base: The full commit of the older side.
        head: The full commit of the newer side.
        selection: The cells; its sources are paths in the work tree, or modules.
        scratch: A folder for the files of a user's revisions. The caller deletes it when both sides have run.
        takes_changes: Whether the user knows that uncommitted changes do not count.

    Raises:
        RevisionError: A revision cannot be made ready; the message says which and why.
    """
    request = _Request(repository, (base, head), selection, scratch)
    changes = [] if takes_changes else repository.changes()
    if changes:
        request.notes.append(
            f"uncommitted changes do not count: {', '.join(changes[:3])}{', ...' if len(changes) > 3 else ''}"
        )
    is_own = _is_this_project(repository.root)
    trees = _exported(request, scratch)
    sources = _sources(request, trees, is_own)
    sides = _sides(request, trees, sources, is_own)
    for side in sides:
        inspection.inspect_side(side, repository.root)
    names = tuple(dict.fromkeys(source.known for each in sources for source in each))
    if not selection.sources and names:
        request.notes.append(f"operators: {', '.join(names)}")
    return Sides(*sides, names, tuple(dict.fromkeys(request.notes)))


@dataclass(frozen=True)
class _Source:
    """Operators of one side: as a reader knows them, and as its process finds them."""

    known: str
    found: str


def _exported(request: _Request, folder: Path) -> tuple[Path, Path]:
    # Paths of one length: programs with longer ones have another stack, which can move times.
    base, head = request.commits
    return request.repository.export(base, folder / base[:SHORT]), request.repository.export(
        head, folder / head[:SHORT]
    )


def _sources(
    request: _Request, trees: tuple[Path, Path], is_own: bool
) -> tuple[tuple[_Source, ...], tuple[_Source, ...]]:
    """Returns the operators of both sides.

    Raises:
        RevisionError: A side has none.
    """
    given = request.selection.sources
    if not given and is_own:
        return (), ()
    known = [_known(request.repository, source) for source in given] or _declared(trees)
    if not known:
        raise RevisionError(
            f"no tracked file of {request.repository.root} declares an operator. Name the file: --operators my_ops.py."
        )
    found = []
    for label, commit, tree in zip((BASE, HEAD), request.commits, trees, strict=True):
        held = tuple(
            _Source(name, str(tree / name) if _is_file(name) else name)
            for name in known
            if not _is_file(name) or (tree / name).is_file()
        )
        lost = [name for name in known if name not in {source.known for source in held}]
        if not held:
            why = "" if label == BASE else " Commit it first: only commits are compared."
            raise RevisionError(f"{label} ({commit[:SHORT]}) has no file {', '.join(lost)}.{why}")
        request.notes.extend([f"{label} ({commit[:SHORT]}) has no file {name}" for name in lost])
        found.append(held)
    return found[0], found[1]


def _known(repository: Repository, source: str) -> str:
    if not _is_file(source):
        return source
    path = repository.path_of(Path(source))
    assert path is not None  # the repository is the one around the operators
    return path


def _declared(trees: Sequence[Path]) -> list[str]:
    """Returns the files that declare operators, by their paths, as far as their source shows it."""
    found: dict[str, None] = {}
    for tree in trees:
        for file in sorted(tree.rglob("*.py")):
            path = file.relative_to(tree)
            is_test = path.name.startswith(("test_", "conftest")) or {"test", "tests"} & set(path.parts)
            if not is_test and _declares(file):
                found[path.as_posix()] = None
    return list(found)


def _declares(file: Path) -> bool:
    text = file.read_text("utf-8", errors="replace")
    return bool(_IMPORT.search(text) and _DECLARATION.search(text))


def _sides(
    request: _Request, trees: tuple[Path, Path], sources: tuple[tuple[_Source, ...], tuple[_Source, ...]], is_own: bool
) -> tuple[Side, Side]:
    """Returns two sides, whose operators come from the files of their commits."""
    root = request.repository.root
    one, two = (
        Side(
            label=label, commit=commit, tree=tree, folder=_folder(root, tree),
            sources=tuple(source.found for source in held),
            variables={"PYTHONPATH": os.pathsep.join([str(tree)] * is_own + _import_path(root, tree))},
        )
        for label, commit, tree, held in zip((BASE, HEAD), request.commits, trees, sources, strict=True)
    )  # fmt: skip
    return one, two


def _folder(root: Path, tree: Path) -> Path:
    """Returns the current folder in the files of a commit, so that relative paths lead to its files; else their top."""
    here = Path.cwd().resolve()
    inside = tree / here.relative_to(root) if here.is_relative_to(root) else tree
    return inside if inside.is_dir() else tree


def _import_path(root: Path, tree: Path) -> list[str]:
    """Returns the import path of a side: where this Python imports from the work tree, it imports from the commit."""
    mapped = []
    for place in map(Path, filter(None, sys.path)):
        real = place.resolve()
        if real.is_relative_to(root) and real.is_dir():
            inside = tree / real.relative_to(root)
            mapped += [str(inside)] if inside.is_dir() else []
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    kept = [path for path in inherited if not Path(path).resolve().is_relative_to(root)]
    # A new process finds the project by this if it is not installed.
    is_found = str(_HERE) in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) or root == _HERE
    ours = [] if is_found else [str(_HERE)]
    return list(dict.fromkeys([*mapped, *kept, *ours]))


def _is_this_project(root: Path) -> bool:
    try:
        with (root / "pyproject.toml").open("rb") as file:
            name = tomllib.load(file).get("project", {}).get("name")
    except (OSError, tomllib.TOMLDecodeError, AttributeError):
        return False
    return name == "kernel-bridge" and (root / "suites" / "__init__.py").is_file()


def _is_file(source: str) -> bool:
    return source.endswith(".py")
