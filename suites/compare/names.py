"""Finds the two runs or the two revisions that the command line names. The name of a run comes before a revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports import RunNotFound, find_run
from reports.records.store import SUFFIXES
from suites.cells.selection import Selection
from suites.compare.revisions.repository import Repository
from suites.compare.revisions.revision_pair import repository_of
from suites.errors import RevisionError


@dataclass(frozen=True)
class TwoRuns:
    """Two recorded runs.

    Attributes:
        base: The file of the older one.
        head: The file of the newer one.
    """

    base: Path
    head: Path


@dataclass(frozen=True)
class TwoRevisions:
    """Two revisions of a repository.

    Attributes:
        repository: The repository.
        base: The full commit of the older one.
        head: The full commit of the newer one.
        ignores_changes: Whether the user named the newer one, and so knows that uncommitted changes do not count.
    """

    repository: Repository
    base: str
    head: str
    ignores_changes: bool


def split_names(words: Sequence[str]) -> tuple[str, str | None, tuple[str, ...]]:
    """Splits ``BASE [HEAD] [FILE...]`` into base, head (None if it is left out) and the files with operators.

    A second word that ends in ``.py`` is a file.
    """
    base, *rest = words
    if rest and not rest[0].endswith(".py"):
        return base, rest[0], tuple(rest[1:])
    return base, None, tuple(rest)


def resolve_names(
    base: str, head: str | None, selection: Selection, runs: str | Path | None = None
) -> TwoRuns | TwoRevisions:
    """Returns the runs or the revisions that two names stand for.

    Args:
        base: The name of a run, as :func:`reports.find_run` takes it, or of a revision.
        head: The same for the newer one; None for ``HEAD``.
        selection: The cells. The files of their operators decide which repository is meant.
        runs: The folder of the runs.

    Raises:
        RevisionError: A name is neither a run nor a revision, or one is a run and the other a revision. The message
            names the attempts.
    """
    one = _resolve(base, selection, runs)
    if head is None and isinstance(one, Path):
        raise RevisionError(f"{base!r} is a recorded run. Name a second one to compare it with, such as latest.")
    two = _resolve(head or "HEAD", selection, runs)
    if isinstance(one, Path) and isinstance(two, Path):
        return TwoRuns(one, two)
    if isinstance(one, _Commit) and isinstance(two, _Commit):
        return TwoRevisions(one.repository, one.commit, two.commit, head is not None)
    run, revision = (base, head) if isinstance(one, Path) else (head, base)
    raise RevisionError(f"{run!r} is a recorded run, and {revision!r} a revision. Name two runs or two revisions.")


@dataclass(frozen=True)
class _Commit:
    repository: Repository
    commit: str


def _resolve(name: str, selection: Selection, runs: str | Path | None) -> Path | _Commit:
    run, no_run = None, "it is a file, and no recorded run"
    try:
        run = find_run(name, runs)
    except RunNotFound as error:
        no_run = str(error).partition(". ")[0]  # the second sentence says what else a name of a run can be
    if run is not None and run.name.endswith(SUFFIXES):
        return run
    try:
        repository = repository_of(selection)
        return _Commit(repository, repository.commit(name))
    except RevisionError as error:
        if run is not None and not name.endswith(".py"):
            return run  # a file may have the name of a branch
        raise RevisionError(f"{name!r} is no run and no revision: {no_run.rstrip('.')}; {error}") from error
