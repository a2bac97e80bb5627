"""Finds the git commit of the code that a run tests: of the user's own repository where her operators lie in one."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from reports import Source
from suites.bench.code_digest import code_digest

_SECONDS = 10


def source(files: Sequence[Path]) -> Source:
    """Returns the commit of the first repository that one of these files belongs to; unknown if none does.

    A file belongs to a repository that tracks it. A new file belongs to it too, unless git ignores it. Installed files
    and ignored ones belong to none: an environment may lie in a folder of somebody's project.

    Git is asked before any kernel ran: a process that has used OpenMP must not fork.

    Args:
        files: The files of the operators.
    """
    digest = code_digest()
    for file in files:
        found = _commit(Path(os.path.realpath(file)))
        if found is not None:
            commit, dirty = found
            return Source(commit=commit, dirty=dirty, digest=digest)
    return Source(digest=digest)


def _commit(file: Path) -> tuple[str, bool | None] | None:
    """Returns the commit of the repository that a file belongs to, and whether there are changes; None without one."""
    is_tracked = _git(file.parent, "ls-files", "--error-unmatch", file.name) is not None
    is_ignored = _git(file.parent, "check-ignore", "--quiet", file.name) is not None
    if not is_tracked and (is_ignored or _is_installed(file)):
        return None
    commit = _git(file.parent, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None  # no repository, or one without commits
    status = _git(file.parent, "status", "--porcelain")
    return commit, None if status is None else bool(status)


def _git(folder: Path, *arguments: str) -> str | None:
    """Returns what git prints, or None if it fails."""
    # In a hook, git sets variables that name the hook's repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A checkout that is mounted into a container belongs to another user.
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS, env=variables)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _is_installed(file: Path) -> bool:
    places = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
    return any(file.is_relative_to(place) for place in places)
