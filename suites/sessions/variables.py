"""Refuses environment variables of this project that it does not know: a misspelt one would be without effect."""

from __future__ import annotations

import difflib
import os

from suites.cells.selection import SelectionError

PREFIX = "KERNEL_BRIDGE_"

KNOWN = (
    "BACKEND", "CACHE_DIR", "DEBUG", "EVENTS", "EXPECT", "MACHINE", "RUNS", "WINNERS_DIR",
)  # fmt: skip
"""The names that follow the prefix."""


def require_known_variables() -> None:
    """Requires that each environment variable with the prefix is known.

    Raises:
        SelectionError: One is not. With ``KERNEL_BRIDGE_EXPCT=cuda``, say, a session without a GPU would succeed.
    """
    for variable in sorted(os.environ):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, 1)
            hint = f" Did you mean {PREFIX}{near[0]}?" if near else ""
            known = ", ".join(PREFIX + each for each in KNOWN)
            raise SelectionError(f"the environment variable {variable} is unknown.{hint} Known: {known}. Unset it.")
