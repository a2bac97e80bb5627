"""Proves the tools of compute-sanitizer: each must find the fault of a kernel whose results are right."""

from __future__ import annotations

import sys

from reports.render.terminal import render
from suites.errors import SelectionError
from suites.sanitize.sanitize_command import MUTANTS, prove
from suites.sanitize.sanitizer_output import TOOLS
from suites.sessions.preflight import require_sound


def main() -> int:
    """Runs every tool on its broken kernel; returns 1 if one missed it."""
    try:
        require_sound(MUTANTS)
        tables, code, reasons = prove(tuple(TOOLS))
    except SelectionError as error:
        print(f"python -m suites.sessions.sanitizers: {error}", file=sys.stderr)
        return 3
    print(render(tables, 120, False), *reasons, sep="\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
