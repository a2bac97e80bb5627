"""Programs in, what they print out: fresh Python processes for what only shows there."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

THREADING_LAYERS = ("workqueue", "omp", "tbb")
"""The threading layers of Numba. TBB is a package of its own."""


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


def require_threading_layer(layer: str) -> None:
    """Skips the test that calls this, unless Numba can run parallel loops on this threading layer."""
    if not _has_threading_layer(layer):
        pytest.skip(f"Numba's threading layer {layer} is not installed here")


@functools.cache
def _has_threading_layer(layer: str) -> bool:
    program = "from numba.np.ufunc.parallel import _launch_threads; _launch_threads()"
    return run("-c", program, NUMBA_THREADING_LAYER=layer).returncode == 0
