"""Chooses the nominal sizes of checks: powers of two, multiples of blocks, their neighbours, and random ones.

The random sizes follow from the seed of the session. :data:`MOST_WORK` excludes the largest sizes of operators whose
work grows with the square of the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from suites.checks.drawn.code_constants import whole_constants
from suites.checks.drawn.session_choices import seeds_of
from suites.checks.judging.call_loops import work
from suites.declare.operator import Operator

BLOCKS = (32, 64, 128, 256, 512, 1024)
"""Extents of blocks of threads."""

POWERS = (2, 4, 8, 16, *BLOCKS, 2048, 4096)

MOST_SMALL = 5000
"""Random small sizes are below this."""

MOST_NAMED = 4
"""Numbers in the code that are tried as sizes."""

LARGE = (2**16, 2**20, 2**21)
"""Large sizes; each is tried itself, or one less or one more."""

MOST_WORK = 2**25
"""Most elements of all arrays in the reference: the truth of more takes hundreds of MiB."""


def small_sizes(operator: Operator, dtype: str, depth: int) -> list[int]:
    """Returns sizes up to 5000 for an operator: 8 in a quick session, about 30 in a full one.

    Numbers in the reference and in the kernels are sizes too. No size has more work than :data:`MOST_WORK`.

    Args:
        operator: The operator; each one gets its own random sizes.
        dtype: The dtype of its inputs.
        depth: The depth of the session, see :mod:`suites.checks.drawn.session_choices`.
    """
    random = np.random.default_rng(seeds_of("sizes", operator.name))
    named = [each for each in whole_constants(operator) if each < MOST_SMALL][:MOST_NAMED]
    block = int(random.choice(BLOCKS))
    others = [int(random.choice(BLOCKS)) + 1, int(random.choice(BLOCKS)) - 1, 8 * int(random.integers(3, 100))]
    if depth == 0:
        sizes = [int(random.choice(POWERS[:4])), block, *others, *named[:2], *random.integers(2, MOST_SMALL, 3)]
        return _affordable(operator, dtype, sizes)
    named = [each + step for each in named for step in (-1, 0, 1)]
    beside = [size + step for size in BLOCKS for step in (-1, 1)]
    more = [24, 48, 96, 1000, 3 * block, *random.integers(2, MOST_SMALL, 4)]
    return _affordable(operator, dtype, [*POWERS, *named, *beside, *others, *more])


def large_sizes(operator: Operator, dtype: str, depth: int) -> list[int]:
    """Returns sizes above :data:`MOST_SMALL`. None has more work than :data:`MOST_WORK`.

    A quick session takes two of :data:`LARGE`, and a random size below the first. A full one takes three, and a random
    size between each of these and the one before. The logarithms of random sizes are uniform.
    """
    random = np.random.default_rng(seeds_of("large sizes", operator.name))
    bases = LARGE[: 2 + depth]
    sizes = [base + int(random.integers(-1, 2)) for base in bases]
    ends = list(zip((MOST_SMALL, *bases), bases, strict=False))[: 1 if depth == 0 else None]
    sizes += [int(np.exp(random.uniform(np.log(low), np.log(high)))) for low, high in ends]
    return _affordable(operator, dtype, sizes)


def _affordable(operator: Operator, dtype: str, sizes: Sequence[Any]) -> list[int]:
    return [size for size in sorted({int(each) for each in sizes}) if work(operator, dtype, size) <= MOST_WORK]
