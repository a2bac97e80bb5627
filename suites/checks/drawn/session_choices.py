"""Holds the profile of a session, which decides how thorough it is, and its seed."""

from __future__ import annotations

import zlib

SEED_FLAG = "session_seed"
"""The name of the seed among the flags of a recorded run."""

MOST_SEED = 2**32 - 1

_profile = "quick"
_seed = 0


def use(seed: int, profile: str = "quick") -> None:
    """Makes :func:`session_seed` and :func:`depth` return these, in this process."""
    global _seed, _profile
    _seed, _profile = seed, profile


def depth() -> int:
    """Returns 0 for the quick profile, and 1 for the full one."""
    return ("quick", "full").index(_profile)


def session_seed() -> int:
    """Returns the seed of the session, which ``--seed`` (pytest: ``--kb-seed``) sets; 0 outside of a session.

    The seed of samples, :data:`suites.cells.case.SEED`, never changes. Use the session's seed inside a test, never for
    its id, so that all workers of a session collect the same tests.
    """
    return _seed


def seeds_of(*words: str) -> list[int]:
    """Returns seeds for ``numpy.random.default_rng`` that follow from the session and these words."""
    return [_seed, *(zlib.crc32(word.encode()) for word in words)]
