"""Makes the two revisions of a comparison ready to run: exports their files, and finds their operators.

Both revisions run with this Python. The operators of each come from the files of its commit. In a checkout of this
project, the project itself comes from there too.
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
from suites.compare.revisions.revision import BASE, HEAD, Revision
from suites.errors import RevisionError

_HERE = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(r"^(from|import) suites\b", re.MULTILINE)
_DECLARATION = re.compile(r"\b(Operator|operator_of)\(")


@dataclass(frozen=True)
class RevisionPair:
    """Both revisions of a comparison.

    Attributes:
        base: The older one.
        head: The newer one.
        sources: The operators as paths from the root of the repository, or as modules.
        notes: Notes for the reader of the comparison, a sentence each.
    """

    base: Revision
    head: Revision
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
        RevisionError: There is none, or the operators lie in several repositories.
    """
    files = [Path(source) for source in selection.sources if _is_file(source)]
    for file in files:
        if not file.parent.is_dir():
            raise RevisionError(f"{file}: there is no such folder.")
    repositories = list(dict.fromkeys(Repository.around(path.resolve()) for path in files or [Path.cwd()]))
    if len(repositories) > 1:
        one, two, *_ = (repository.root for repository in repositories)
        raise RevisionError(f"the operators lie in {len(repositories)} repositories: {one}, {two}.")
    return repositories[0]


def prepare_revisions(
    repository: Repository, base: str, head: str, selection: Selection, scratch: Path, *, ignores_changes: bool = False
) -> RevisionPair:
    """Makes both revisions ready to run, and requires that the operators of each load from its own commit.

    Args:
        repository: The repository, see :func:`repository_of`.
        base: The full commit of the older revision.
        head: The full commit of the newer revision.
        selection: The cells; its sources are paths in the work tree, or modules.
        scratch: A folder for the files of both commits. The caller deletes it when both revisions have run.
        ignores_changes: Whether the user knows that uncommitted changes do not count.

    Raises:
        RevisionError: A revision cannot be made ready; the message says which and why.
    """
    request = _Request(repository, (base, head), selection, scratch)
    changes = [] if ignores_changes else repository.changes()
    if changes:
        request.notes.append(
            f"uncommitted changes do not count: {', '.join(changes[:3])}{', ...' if len(changes) > 3 else ''}"
        )
    is_own = _is_this_project(repository.root)
    trees = _export(request, scratch)
    sources = _sources(request, trees, is_own)
    revisions = _revisions(request, trees, sources, is_own)
    for revision in revisions:
        inspection.inspect_revision(revision, repository.root)
    names = tuple(dict.fromkeys(source.name for each in sources for source in each))
    if not selection.sources and names:
        request.notes.append(f"operators: {', '.join(names)}")
    return RevisionPair(*revisions, names, tuple(dict.fromkeys(request.notes)))


@dataclass(frozen=True)
class _Source:
    """The operators of one file or module: its name for the reader, and the path from which a process loads it."""

    name: str
    path: str


def _export(request: _Request, folder: Path) -> tuple[Path, Path]:
    # Both paths have the same length: a longer path in the environment moves the stack, which can change times.
    base, head = request.commits
    return request.repository.export(base, folder / base[:SHORT]), request.repository.export(
        head, folder / head[:SHORT]
    )


def _sources(
    request: _Request, trees: tuple[Path, Path], is_own: bool
) -> tuple[tuple[_Source, ...], tuple[_Source, ...]]:
    """Returns the operators of both revisions.

    Raises:
        RevisionError: A revision has none.
    """
    selected = request.selection.sources
    if not selected and is_own:
        return (), ()
    names = [_name(request.repository, source) for source in selected] or _declaring_files(trees)
    if not names:
        raise RevisionError(
            f"no tracked file of {request.repository.root} declares an operator. Name the file: --operators my_ops.py."
        )
    both = []
    for label, commit, tree in zip((BASE, HEAD), request.commits, trees, strict=True):
        sources = tuple(
            _Source(name, str(tree / name) if _is_file(name) else name)
            for name in names
            if not _is_file(name) or (tree / name).is_file()
        )
        missing = [name for name in names if name not in {source.name for source in sources}]
        if not sources:
            why = "" if label == BASE else " Commit it first: only commits are compared."
            raise RevisionError(f"{label} ({commit[:SHORT]}) has no file {', '.join(missing)}.{why}")
        request.notes.extend([f"{label} ({commit[:SHORT]}) has no file {name}" for name in missing])
        both.append(sources)
    return both[0], both[1]


def _name(repository: Repository, source: str) -> str:
    if not _is_file(source):
        return source
    path = repository.path_of(Path(source))
    assert path is not None  # the repository is the one around the operators
    return path


def _declaring_files(trees: Sequence[Path]) -> list[str]:
    """Returns the paths of the files whose source declares operators."""
    paths: dict[str, None] = {}
    for tree in trees:
        for file in sorted(tree.rglob("*.py")):
            path = file.relative_to(tree)
            is_test = path.name.startswith(("test_", "conftest")) or {"test", "tests"} & set(path.parts)
            if not is_test and _declares(file):
                paths[path.as_posix()] = None
    return list(paths)


def _declares(file: Path) -> bool:
    text = file.read_text("utf-8", errors="replace")
    return bool(_IMPORT.search(text) and _DECLARATION.search(text))


def _revisions(
    request: _Request, trees: tuple[Path, Path], sources: tuple[tuple[_Source, ...], tuple[_Source, ...]], is_own: bool
) -> tuple[Revision, Revision]:
    """Returns both revisions, whose operators come from the files of their commits."""
    root = request.repository.root
    one, two = (
        Revision(
            label=label, commit=commit, tree=tree, folder=_folder(root, tree),
            sources=tuple(source.path for source in own),
            variables={"PYTHONPATH": os.pathsep.join([str(tree)] * is_own + _import_path(root, tree))},
        )
        for label, commit, tree, own in zip((BASE, HEAD), request.commits, trees, sources, strict=True)
    )  # fmt: skip
    return one, two


def _folder(root: Path, tree: Path) -> Path:
    """Returns the folder of the commit that corresponds to the current one; its top folder if there is none.

    Relative paths then lead to files of the commit.
    """
    here = Path.cwd().resolve()
    inside = tree / here.relative_to(root) if here.is_relative_to(root) else tree
    return inside if inside.is_dir() else tree


def _import_path(root: Path, tree: Path) -> list[str]:
    """Returns the import path of a revision: folders of the work tree are replaced by those of the commit."""
    mapped = []
    for folder in map(Path, filter(None, sys.path)):
        real = folder.resolve()
        if real.is_relative_to(root) and real.is_dir():
            inside = tree / real.relative_to(root)
            mapped += [str(inside)] if inside.is_dir() else []
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    outside = [path for path in inherited if not Path(path).resolve().is_relative_to(root)]
    # If the project is not installed, a new process finds it by this entry.
    is_importable = str(_HERE) in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) or root == _HERE
    ours = [] if is_importable else [str(_HERE)]
    return list(dict.fromkeys([*mapped, *outside, *ours]))


def _is_this_project(root: Path) -> bool:
    try:
        with (root / "pyproject.toml").open("rb") as file:
            name = tomllib.load(file).get("project", {}).get("name")
    except (OSError, tomllib.TOMLDecodeError, AttributeError):
        return False
    return name == "kernel-bridge" and (root / "suites" / "__init__.py").is_file()


def _is_file(source: str) -> bool:
    return source.endswith(".py")
