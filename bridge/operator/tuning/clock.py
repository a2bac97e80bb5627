"""Times a candidate: takes samples of calls that are made one by one, or in a loop inside one program."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.rules.application import apply

LEAST_ROUNDS = 7
LIMIT_S = 1.0
"""Seconds of samples after which a candidate is not timed any more, once it has the least number of rounds."""

SAMPLE_S = 1e-3
"""The least time that the calls of one sample take together."""

MOST_CALLS = 1 << 16


class Clock:
    """Takes the samples of one candidate.

    Args:
        run: Makes a number of calls and waits for all of their results.
    """

    def __init__(self, run: Callable[[int], Any]):
        self._run = run
        self.calls = 1
        self.samples_s: list[float] = []

    def sample(self) -> float:
        """Seconds of a call: the mean over the calls of one sample."""
        start = time.perf_counter()
        self._run(self.calls)
        return (time.perf_counter() - start) / self.calls

    def calibrate(self) -> float:
        """Finds the number of calls that make a sample; returns the seconds of a call."""
        # The least of a few samples: one that another process interrupts would end the search too early.
        while (call_s := self.least(3)) * self.calls < SAMPLE_S and self.calls < MOST_CALLS:
            self.calls *= 2
        return call_s

    def least(self, count: int) -> float:
        """The least of some samples, which are not kept."""
        return min(self.sample() for _ in range(count))

    def is_done(self, hopeless: bool) -> bool:
        """Whether there are enough samples; one is enough for a candidate that is hopelessly slow."""
        if hopeless:
            return bool(self.samples_s)
        return len(self.samples_s) >= LEAST_ROUNDS and sum(self.samples_s) * self.calls >= LIMIT_S


def one_by_one(program: Any, args: list[jax.Array]) -> Callable[[int], Any]:
    """Makes calls of a compiled program, and waits for each of them."""

    def run(calls: int) -> None:
        for _ in range(calls):
            jax.block_until_ready(program(*args))

    return run


def in_a_loop(call: OperatorCall, args: list[jax.Array]) -> Callable[[int], Any]:
    """Makes calls one after the other inside one program.

    XLA must make every call, in order, with the same arguments. So each iteration replaces an element of the first
    argument by an element of the first result if the number of the iteration is ``never``. That does not happen, but
    XLA cannot know it: ``never`` is an argument of the program. The barrier keeps XLA from computing only that element.
    """

    def program(calls: Any, never: Any, *arrays: Any) -> list[Any]:
        def body(number: Any, carried: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            given, _ = carried
            given, results = jax.lax.optimization_barrier((given, apply(call, *given)))
            place = (0,) * given[0].ndim
            other = results[0].reshape(-1)[0]
            other = (other.real if jnp.iscomplexobj(other) else other).astype(given[0].dtype)
            changed = given[0].at[place].set(jnp.where(number == never, other, given[0][place]))
            return [changed, *given[1:]], results

        empty = [jnp.zeros(spec.shape, spec.dtype) for spec in call.outputs]
        carried: tuple[list[Any], list[Any]] = jax.lax.fori_loop(0, calls, body, (list(arrays), empty))
        return carried[1]

    never = np.int32(-1)
    compiled = jax.jit(program).lower(np.int32(1), never, *args).compile()
    return lambda calls: jax.block_until_ready(compiled(np.int32(calls), never, *args))


def can_be_looped(call: OperatorCall, args: list[jax.Array]) -> bool:
    """Whether :func:`in_a_loop` can time a call: it has no side effect, and its first arrays are not empty."""
    return not call.has_side_effect and bool(args) and args[0].size > 0 and math.prod(call.outputs[0].shape) > 0
