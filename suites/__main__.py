"""Starts the command line, ``kernel-bridge`` or ``python -m suites``, if the packages that it needs are installed."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from importlib.util import find_spec

from suites.sessions.interruption import Interruption

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Imports make half a million objects that stay: with Python's 700, a tenth of the start went into looking at them."""

_NEEDED = ("hypothesis", "pandas", "pytest", "pytest_benchmark", "pytest_timeout", "rich", "scipy", "warp", "xdist")


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
    if arguments is not None:
        return _run(arguments)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # At its end, Python looks for garbage among all objects: a third of the time of a short command.
    atexit.register(gc.freeze)
    interruption = Interruption()
    interruption.install()
    try:
        code = _run(None)
    except KeyboardInterrupt:
        print("kernel-bridge: interrupted.", file=sys.stderr)
        code = 3
    if interruption.happened:
        # Libraries that were interrupted while they started can free memory twice when the interpreter takes them down.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    return code


def _run(arguments: list[str] | None) -> int:
    from suites.sessions.commands.command_line import main as run

    return run(arguments)


if __name__ == "__main__":
    if (
        not sys.flags.safe_path and sys.path[0] == os.getcwd()
    ):  # a random.py in the user's folder must not hide Python's own
        sys.path.append(sys.path.pop(0))
    sys.exit(main())
