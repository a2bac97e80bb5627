"""Refuses environment variables of this project that it does not know: a misspelt one would be without effect."""

from __future__ import annotations

import difflib
import os

from suites.cells.selection import SelectionError

PREFIX = "KERNEL_BRIDGE_"

KNOWN = ("BACKEND", "CACHE_DIR", "DEBUG", "EVENTS", "MACHINE", "RUNS")
"""The names that follow the prefix."""


def require_known_variables() -> None:
    """Requires that each environment variable with the prefix is known.

    Raises:
        SelectionError: One is not. With ``KERNEL_BRIDGE_RUN``, say, runs would go into another folder than was meant.
    """
    known = [PREFIX + name for name in KNOWN]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, 1) or known
            raise SelectionError(f"the environment variable {name} is unknown. Did you mean {' or '.join(near)}?")
