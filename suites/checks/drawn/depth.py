"""Holds how thorough a session is, for checks that choose inside a test how much they try."""

from __future__ import annotations

DEEP = 2
"""The depth of the deep profile."""

_profile = "quick"
_is_asked = False


def use(profile: str) -> None:
    """Makes :func:`depth` return this profile, in this process."""
    global _profile, _is_asked
    _profile, _is_asked = profile, False


def depth() -> int:
    """Returns 0 for the quick profile, 1 for the full one, and :data:`DEEP` for the deep one."""
    global _is_asked
    _is_asked = True
    return ("quick", "full", "deep").index(_profile)


def is_asked() -> bool:
    """Whether anything has called :func:`depth` since :func:`use`: a check that has tries more in another profile."""
    return _is_asked
