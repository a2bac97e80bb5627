"""Holds how thorough a session is, for checks that choose inside a test how much they try."""

from __future__ import annotations

DEEP = 2
"""The depth of the deep profile."""

_profile = "quick"


def use(profile: str) -> None:
    """Makes :func:`depth` return this profile, in this process."""
    global _profile
    _profile = profile


def depth() -> int:
    """Returns 0 for the quick profile, 1 for the full one, and :data:`DEEP` for the deep one."""
    return ("quick", "full", "deep").index(_profile)
