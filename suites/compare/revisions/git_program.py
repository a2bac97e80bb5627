"""Starts git without the variables of a hook, and so that it asks no question at the terminal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from suites.errors import RevisionError

_LOCAL = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip
"""Variables that tie git to one repository. A hook, such as pre-push, sets them for the commands that it starts."""


def run_git(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs git in a folder, and returns its exit code, output and messages.

    Args:
        folder: A folder of the repository.
        *arguments: The command of git and its arguments.
        **variables: Environment variables.

    Raises:
        RevisionError: There is no git.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _LOCAL}
    # This module reads git's messages, so they must be English. A remote that asks for a password would wait for ever.
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"} | variables
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment, capture_output=True, text=True, errors="surrogateescape", check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise RevisionError(
            f"git cannot be started ({error.strerror}). Install git, and add its folder to PATH."
        ) from error


def git_message(result: subprocess.CompletedProcess[str]) -> str:
    """Returns the last line that a failed git printed, or its exit code if it printed nothing."""
    lines = result.stderr.strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else f"git ended with exit code {result.returncode}"
