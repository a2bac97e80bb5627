"""Finds modules of the user that hide packages of this project, which have common names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_HOME = Path(__file__).parents[2]


def hidden_package() -> str | None:
    """Says which other module hides ``bridge`` or ``reports``, and how to mend it; None if both are ours."""
    for name in ("bridge", "reports"):
        spec = find_spec(name)
        origin = Path(spec.origin or "") if spec else None
        if origin is None:
            return f"kernel-bridge: its package {name!r} is missing from {_HOME}. Install it again."
        if origin.parent != _HOME / name:
            return (
                f"kernel-bridge: {origin} hides its package {name!r} in {_HOME}. If the file is yours, rename it or "
                "run the command in another folder. If a package brought it, uninstall that and install this one again."
            )
    return None
