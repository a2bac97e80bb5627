"""Chooses the nominal sizes of checks: powers of two, multiples of blocks, their neighbours, and random ones.

The random sizes follow from the seed of the session. :data:`MOST_WORK` excludes the largest sizes of operators whose
work grows with the square of the size.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from suites.checks.drawn.drawn_inputs import whole_constants
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


VAST = 2**29 + 9
"""A byte offset of float32 beyond it is negative in 32 bits."""

COPIES = 5
"""Arrays that a check holds for each input and output: the values, the poison, two results, and a comparison."""


WAIT_S = 60.0
"""How long a check waits for the memory that another process uses."""


@contextlib.contextmanager
def memory_alone() -> Iterator[bool]:
    """Lets one process of this user at a time use the free memory of the machine; yields False if it waits too long.

    Without this, several processes would each count on the same free memory.
    """
    end = time.monotonic() + WAIT_S
    with Path(tempfile.gettempdir(), f"kernel-bridge-memory-{os.getuid()}").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    yield False
                    return
                time.sleep(0.1)
        yield True


def vast_size(operator: Operator, dtype: str, device: jax.Device) -> int | None:
    """Returns :data:`VAST` for an elementwise operator whose arrays fit the memory of GPU and machine, else None.

    Only samples of elementwise operators repeat themselves, so that their truth is cheap.
    """
    if not operator.elementwise:
        return None
    inputs = operator.sample(dtype, 64, 0)
    arrays: list[Any] = [*inputs, *operator.outputs(*inputs)]
    needed = COPIES * sum(VAST * np.dtype(each.dtype).itemsize for each in arrays if int(np.prod(each.shape)) > 1)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return VAST if needed < min(free, device.memory_stats()["bytes_limit"]) else None
