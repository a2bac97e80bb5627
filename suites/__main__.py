"""Starts the command line, ``kernel-bridge`` or ``python -m suites``, if the packages that it needs are installed."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

_NEEDED = ("hypothesis", "pandas", "pytest", "pytest_benchmark", "pytest_timeout", "rich", "warp", "xdist")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code, 3 if a package is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"kernel-bridge: its commands need packages that are not installed: {', '.join(missing)}. Install them: "
            'python -m pip install "kernel-bridge[suites]"',
            file=sys.stderr,
        )
        return 3
    from suites.sessions.commands.command_line import main as run

    return run(arguments)


if __name__ == "__main__":
    if sys.path[0] == os.getcwd():  # a random.py in the user's folder must not hide Python's own
        sys.path.append(sys.path.pop(0))
    sys.exit(main())
