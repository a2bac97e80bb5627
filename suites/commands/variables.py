"""Refuses unknown environment variables that begin with this project's prefix: a misspelt one would do nothing."""

from __future__ import annotations

import difflib
import os

from suites.cells.selection import SelectionError

PREFIX = "KERNEL_BRIDGE_"

NAMES = ("BACKEND", "CACHE_DIR", "DEBUG", "EVENTS", "MACHINE", "RUNS")
"""The names that follow the prefix."""


def require_known_variables() -> None:
    """Requires that each environment variable with the prefix is known.

    Raises:
        SelectionError: One is unknown. With ``KERNEL_BRIDGE_RUN``, for example, runs would go into the default folder.
    """
    names = [PREFIX + name for name in NAMES]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in names:
            near = difflib.get_close_matches(name, names, 1) or names
            raise SelectionError(f"the environment variable {name} is unknown. Did you mean {' or '.join(near)}?")
