"""Asks git for the revisions of a repository and for their files, without changing the repository."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from suites.compare.revisions.git_program import git_message, run_git
from suites.errors import RevisionError

SHORT = 12
"""Digits of a commit in texts."""


@dataclass(frozen=True)
class Repository:
    """A git repository with a work tree.

    Attributes:
        root: The top folder of the work tree, without symbolic links.
    """

    root: Path

    @classmethod
    def around(cls, path: Path) -> Repository:
        """Returns the repository that holds a file or folder.

        Raises:
            RevisionError: There is no git, the path is in no repository, or the repository has no work tree.
        """
        folder = path if path.is_dir() else path.parent
        done = run_git(folder, "rev-parse", "--show-toplevel")
        if done.returncode:
            raise RevisionError(
                f"{path}: git finds no work tree there ({git_message(done)}). Type this command in a git repository."
            )
        return cls(Path(done.stdout.strip()).resolve())

    def commit(self, revision: str) -> str:
        """Returns the full commit of a revision: a branch, a tag, the beginning of a commit, ``HEAD~1``.

        Raises:
            RevisionError: There is none, or the name is ambiguous. The message says whether the clone is shallow.
        """
        done = run_git(self.root, "rev-parse", "--verify", f"{revision}^{{commit}}") if _is_name(revision) else None
        if done is not None and done.returncode == 0:
            return done.stdout.strip()
        if done is not None and "ambiguous" in done.stderr:
            raise RevisionError(f"{revision!r} is the beginning of several commits of {self.root}. Give more digits.")
        raise RevisionError(f"no revision {revision!r} in {self.root}.{self._cure(revision)}")

    def merge_base(self, base: str, head: str) -> str:
        """Returns the last commit that two commits have in common: where the branch of ``head`` began.

        Args:
            base: A full commit.
            head: A full commit.

        Raises:
            RevisionError: They have none, or the clone is too shallow to hold it.
        """
        done = run_git(self.root, "merge-base", base, head)
        if done.returncode or not done.stdout.strip():
            raise RevisionError(
                f"{base[:SHORT]} and {head[:SHORT]} have no commit in common in {self.root}.{self._cure(None)}"
            )
        return done.stdout.split()[0]

    def changes(self) -> list[str]:
        """Returns the paths of the tracked files that differ from ``HEAD``."""
        listed = run_git(self.root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no").stdout
        return [line[3:] for line in listed.split("\0") if line]

    def path_of(self, file: Path) -> str | None:
        """Returns the path of a file from the root of the repository; None if it lies outside of it."""
        real = file.resolve()
        return real.relative_to(self.root).as_posix() if real.is_relative_to(self.root) else None

    def export(self, commit: str, folder: Path) -> Path:
        """Writes the files of a commit to a folder, as a checkout would, and returns the folder.

        Unlike ``git archive`` it also writes files with the attribute ``export-ignore``. The folders of submodules stay
        empty.

        Args:
            commit: A full commit.
            folder: The folder; it is made if it does not exist.

        Raises:
            RevisionError: git cannot read a file of the commit, or the disk is full.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            for arguments in (
                ["read-tree", commit],
                ["checkout-index", "--all", "--force", f"--prefix={folder}{os.sep}"],
            ):
                done = run_git(self.root, *arguments, GIT_INDEX_FILE=os.path.join(scratch, "index"))
                if done.returncode:
                    raise RevisionError(f"the files of {commit[:SHORT]} cannot be exported: {git_message(done)}")
        return folder

    def _cure(self, revision: str | None) -> str:
        if run_git(self.root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
            return (
                " This clone is shallow, it holds only the last commits: run git fetch --unshallow; in GitHub Actions"
                " give actions/checkout fetch-depth: 0."
            )
        if revision is None:
            return ""
        remote, _, branch = revision.partition("/")
        if branch and remote in run_git(self.root, "remote").stdout.split():
            return f" Fetch it first: git fetch {remote} {branch}."
        return " Give a branch, a tag, the beginning of a commit, or one such as HEAD~1."


def _is_name(revision: str) -> bool:
    """Tells whether git takes the text as a revision, and not as an option."""
    return bool(revision.strip()) and not revision.startswith("-") and "\0" not in revision
