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
from dataclasses import dataclass
from pathlib import Path

from suites.cells.selection import Selection
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
        root: The work tree.
    """

    base: Revision
    head: Revision
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    root: Path


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
    """Makes both revisions ready to run.

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
    notes = []
    changes = [] if ignores_changes else repository.changes()
    if changes:
        notes.append(f"uncommitted changes do not count: {', '.join(changes[:3])}{', ...' if len(changes) > 3 else ''}")
    # Both paths have the same length: a longer path in the environment moves the stack, which can change times.
    trees = [repository.export(commit, scratch / commit[:SHORT]) for commit in (base, head)]
    names = [_name(repository, source) for source in selection.sources]
    if not names and not _is_this_project(repository.root):
        names = _declaring_files(trees)
        if not names:
            raise RevisionError(
                f"no tracked file of {repository.root} declares an operator. Name the file after the revisions."
            )
        notes.append(f"operators: {', '.join(names)}")
    revisions = []
    for label, commit, tree in zip((BASE, HEAD), (base, head), trees, strict=True):
        missing = [name for name in names if _is_file(name) and not (tree / name).is_file()]
        if missing and len(missing) == len(names):
            why = "" if label == BASE else " Commit it first: only commits are compared."
            raise RevisionError(f"{label} ({commit[:SHORT]}) has no file {', '.join(missing)}.{why}")
        notes += [f"{label} ({commit[:SHORT]}) has no file {name}" for name in missing]
        own = tuple(str(tree / name) if _is_file(name) else name for name in names if name not in missing)
        revisions.append(_revision(repository.root, label, commit, tree, own))
    return RevisionPair(revisions[0], revisions[1], tuple(names), tuple(dict.fromkeys(notes)), repository.root)


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
            text = "" if is_test else file.read_text("utf-8", errors="replace")
            if _IMPORT.search(text) and _DECLARATION.search(text):
                paths[path.as_posix()] = None
    return list(paths)


def _revision(root: Path, label: str, commit: str, tree: Path, sources: tuple[str, ...]) -> Revision:
    """Returns a revision whose operators come from the files of its commit."""
    ours = [str(tree)] if _is_this_project(root) else []
    variables = {"PYTHONPATH": os.pathsep.join(ours + _import_path(root, tree))}
    return Revision(
        label=label, commit=commit, tree=tree, folder=_folder(root, tree), sources=sources, variables=variables
    )


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
