"""Defines :class:`Revision`: one of the two revisions of a comparison, with the files of its commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suites.compare.revisions.repository import SHORT

BASE, HEAD = "base", "head"
"""The labels of the two revisions: the older one, and the newer one."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One of the two revisions of a comparison, ready to run.

    Attributes:
        label: ``base`` or ``head``.
        commit: The full commit.
        sources: Files or modules with its operators; none for the built-in ones.
        variables: Environment variables of its processes; they replace those of this process. Empty means not set.
        tree: The folder with the files of the commit.
        folder: The working folder of its processes: the folder in ``tree`` that corresponds to the current folder.
    """

    label: str
    commit: str
    sources: tuple[str, ...]
    variables: dict[str, str]
    tree: Path
    folder: Path

    def __str__(self) -> str:
        """Returns the label and the commit, for messages."""
        return f"{self.label} ({self.commit[:SHORT]})"
