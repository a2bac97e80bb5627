"""Defines :class:`SessionEnd`: how a session of ``bench`` or ``validate`` ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class SessionEnd:
    """How a session ended.

    Attributes:
        path: The run file; None if no cell ended.
        refusal: Why the session could not run or go on, in one line; None if it could.
        interrupted: Whether the user ended it.
        left: The number of cells that the session did not reach.
        code: pytest's exit code; 0 for a session of several processes.
    """

    path: Path | None
    refusal: str | None = None
    interrupted: bool = False
    left: int = 0
    code: int = 0
