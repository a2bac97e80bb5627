"""Makes small git repositories for tests."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from suites.errors import RevisionError

OPERATORS = """\
import numba
from suites import Operator

@numba.njit
def twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

OPERATOR = Operator(name="twice", reference=lambda x: 2 * x, kernels={"numba": twice}, dtypes=("float32",))
"""
"""A file with one operator."""


def refusal(function: Callable[..., object], *arguments: object, **options: object) -> str:
    """What a function says, in one line, that refuses a revision."""
    with pytest.raises(RevisionError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder; returns what it prints."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    variables |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for person in ("AUTHOR", "COMMITTER"):
        variables |= {f"GIT_{person}_NAME": "somebody", f"GIT_{person}_EMAIL": "somebody@host.example"}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, files: dict[str, str | None], message: str = "change") -> str:
    """Writes files (None deletes one) and commits them; the first commit makes the repository. Returns the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch", "main")
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")
