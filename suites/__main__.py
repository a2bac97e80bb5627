"""Starts the command line, ``kernel-bridge`` or ``python -m suites``, if the packages that it needs are installed."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import find_spec

from suites.processes.interruption import INTERRUPTION
from suites.processes.own_packages import hidden_package

_NEEDED = ("pandas", "pytest", "pytest_timeout", "rich", "scipy", "warp", "xdist")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code, 3 if a package is missing."""
    if arguments is None:
        INTERRUPTION.install()
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"kernel-bridge: its commands need packages that are not installed: {', '.join(missing)}. Install them, in "
            'the folder of its source: python -m pip install ".[suites]"',
            file=sys.stderr,
        )
        return 3
    if (foreign := hidden_package()) is not None:
        print(foreign, file=sys.stderr)
        return 3
    from suites.commands.command_line import main as run

    if arguments is not None:
        return run(arguments)
    lost = False
    try:
        code = run(None)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("kernel-bridge: interrupted.", file=sys.stderr)
        code = 3
    except OSError as error:  # a full disk takes no output, and perhaps not the reason; Python would exit with 1
        code, lost = 3, True
        with contextlib.suppress(OSError):
            print(f"kernel-bridge: {error}", file=sys.stderr)
    if INTERRUPTION.happened or lost:
        # Libraries that were interrupted while they started can free memory twice when the interpreter takes them down.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    if (
        not sys.flags.safe_path and sys.path[0] == os.getcwd()
    ):  # a random.py in the user's folder must not hide Python's own
        sys.path.append(sys.path.pop(0))
    sys.exit(main())
