"""Programs in, what they print out: fresh Python processes for what only shows there."""

import os
import subprocess
import sys
from pathlib import Path


def environment(**changes: str | None) -> dict[str, str]:
    """The variables of this process with its import path and some changes; None takes a variable away."""
    path = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "PYTHONPATH": path, **changes}
    return {name: value for name, value in variables.items() if value is not None}


def run(*arguments: object, cwd: Path | None = None, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Runs this Python in a fresh process.

    Args:
        *arguments: Of the interpreter: a file and the arguments of its program, or ``-c`` and a program.
        cwd: The folder to run it in; by default the current one.
        **changes: To the environment, as in :func:`environment`.
    """
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(**changes), capture_output=True, text=True, timeout=500)


def output(*arguments: object, cwd: Path | None = None, **changes: str | None) -> str:
    """What a program that succeeds prints, without the blanks around it; arguments as for :func:`run`."""
    done = run(*arguments, cwd=cwd, **changes)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
