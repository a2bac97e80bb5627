"""Holds the seed of a session: the choices that a check makes anew in each run follow from it.

The seed of samples is another one, :data:`suites.cells.case.SEED`, and never changes. Choices are made inside a test
and never in its id, so that all workers of a session collect the same tests.
"""

from __future__ import annotations

import zlib

MOST = 2**32 - 1
"""The largest seed."""

SEED_FLAG = "session_seed"
"""The name of the seed among the flags of a recorded run."""

_seed = 0


def use(seed: int) -> None:
    """Makes :func:`session_seed` return this seed, in this process."""
    global _seed
    _seed = seed


def session_seed() -> int:
    """Returns the seed of the session, which ``--seed`` (pytest: ``--kb-seed``) repeats; 0 where no session set it."""
    return _seed


def seeds_of(*words: str) -> list[int]:
    """Returns seeds for ``numpy.random.default_rng`` that follow from the session and these words."""
    return [_seed, *(zlib.crc32(word.encode()) for word in words)]
