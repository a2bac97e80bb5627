"""Decides where the data of a timed call lies before it: in the cache of the GPU (hot), or not (cold).

Hot calls share one set of inputs, and drop their results, so that the next results get the same memory.

Cold calls take turns with several sets, and keep their results for as many calls, so that inputs and outputs are at
other addresses than the calls before had. All sets together are :data:`~suites.bench.gpu.COLD_FROM_L2` times as
large as the cache. Small calls would need thousands of sets. They take turns with two, and the cache is emptied before
each call.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from suites.bench.gpu import COLD_FROM_L2, l2_bytes

MOST_SETS = 64
"""Most sets of inputs to take turns with. Making one takes about 30 us."""


class InputTurns(NamedTuple):
    """How calls take turns.

    Attributes:
        sets: Sets of inputs, and of results that are kept.
        sweep: Whether the cache must be emptied before each call all the same.
    """

    sets: int
    sweep: bool


HOT = InputTurns(1, False)


def turns(cache: str, working_set_bytes: int) -> InputTurns:
    """Returns how the calls of a cell take turns.

    Args:
        cache: ``hot`` or ``cold``.
        working_set_bytes: Bytes that a call reads and writes.

    Raises:
        ValueError: The cache has another state.
    """
    if cache not in ("hot", "cold"):
        raise ValueError(f"the state of the cache is {cache!r}, expected 'hot' or 'cold'. Ask gpu.cache_states.")
    if cache == "hot":
        return HOT
    sets = max(2, -(-COLD_FROM_L2 * l2_bytes() // max(1, working_set_bytes)))
    return InputTurns(sets, False) if sets <= MOST_SETS else InputTurns(2, True)


class InputRotation:
    """Calls a program with several sets of equal inputs in turn.

    Args:
        program: Takes the inputs, and returns results as arrays.
        inputs: The inputs, on the device. They are the first set.
        how: How many sets to make.
    """

    def __init__(self, program: Callable[..., Any], inputs: Sequence[jax.Array], how: InputTurns):
        sets = [list(inputs), *(_copies(list(inputs)) for _ in range(how.sets - 1))]
        # What a library does once for many calls must not be part of a timed one.
        bound = getattr(program, "bound", None) or functools.partial(functools.partial, program)
        self._calls: list[Callable[[], Any]] = [bound(*arguments) for arguments in sets]
        self._kept: collections.deque[Any] = collections.deque(maxlen=how.sets if how.sets > 1 else 0)
        self._next = 0

    def __call__(self) -> Any:
        """Starts the next call, and returns its results."""
        call = self._calls[self._next]
        self._next = (self._next + 1) % len(self._calls)
        results = call()
        self._kept.append(results)
        return results


@jax.jit
def _copies(arrays: list[Any]) -> list[Any]:
    """Arrays in other memory: XLA gives no input back as a result."""
    return [jnp.copy(array) for array in arrays]
