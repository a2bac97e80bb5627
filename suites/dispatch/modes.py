"""Builds the workloads that are measured: a call in a loop, in a chain, jitted, and eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from suites.dispatch import hlo
from suites.dispatch.path import BinaryOp, CallPath

CHAIN_CALLS = 50
"""Calls in one ``chain``."""

LOOP_CALLS = 100
"""Calls in one iteration of ``loop``."""


class WrongResultError(Exception):
    """A path did not give ``x + y``, or its call is not in the compiled code where it should be."""


@dataclass(frozen=True)
class Workload:
    """A program to time.

    Attributes:
        run: Runs this many iterations, and waits for their results.
        calls: Calls of the path in one iteration.
    """

    run: Callable[[int], None]
    calls: int = 1


@dataclass(frozen=True)
class Mode:
    """A situation in which a call is measured.

    Attributes:
        name: Short, for the records.
        title: The situation in words, for tables.
        workload: Checks a path and builds its workload. It raises :class:`WrongResultError`.
    """

    name: str
    title: str
    workload: Callable[[CallPath, jax.Array, jax.Array], Workload]


def _expect(result: jax.Array, x: jax.Array, y: jax.Array, calls: int, what: str) -> None:
    """Compares with ``calls`` additions of ``y`` to ``x``, without tolerance: IEEE addition has one result."""
    want: NDArray[Any] = np.asarray(x)
    for _ in range(calls):
        want = want + np.asarray(y)
    got = np.asarray(result)
    if got.shape != want.shape or got.dtype != want.dtype or not np.array_equal(got, want):
        raise WrongResultError(
            f"{what}: got {got.dtype}{list(got.shape)} {got.ravel()[:4]}..., "
            f"expected {want.dtype}{list(want.shape)} {want.ravel()[:4]}..."
        )


def _compiled_text(jitted: Any, *args: Any) -> str:
    """Returns the HLO that XLA compiles from a jitted function."""
    return str(jitted.lower(*args).compile().as_text())


def _barrier(value: jax.Array) -> jax.Array:
    passed: jax.Array = jax.lax.optimization_barrier(value)
    return passed


def _fori_loop(trips: int, body: Callable[[Any, jax.Array], jax.Array], start: jax.Array) -> jax.Array:
    end: jax.Array = jax.lax.fori_loop(0, trips, body, start)
    return end


def _repeat(call: BinaryOp, x: jax.Array, y: jax.Array) -> Callable[[int], None]:
    def run(iterations: int) -> None:
        for _ in range(iterations):
            call(x, y).block_until_ready()

    return run


def _loop(path: CallPath, x: jax.Array, y: jax.Array) -> Workload:
    # The carry passes through the op and a barrier. So XLA can neither hoist nor fold the call. The number of inner
    # trips is known, as in most loops of users: XLA then evaluates no condition. The number of outer trips is an
    # argument: one executable then serves for any number of iterations.
    @jax.jit
    def loop(iterations: int, x: jax.Array, y: jax.Array) -> jax.Array:
        def call(_: Any, carry: jax.Array) -> jax.Array:
            return _barrier(path.op(carry, y))

        def calls(_: Any, carry: jax.Array) -> jax.Array:
            return _fori_loop(LOOP_CALLS, call, carry)

        return _fori_loop(iterations, calls, x)

    found = hlo.count_in_loops(_compiled_text(loop, 1, x, y), path.marker)
    if found != 1:
        raise WrongResultError(
            f"loop: {found} instructions in the loop's compiled body match {path.marker!r}, expected 1"
        )
    _expect(loop(2, x, y), x, y, 2 * LOOP_CALLS, "loop")

    def run(iterations: int) -> None:
        loop(iterations, x, y).block_until_ready()

    return Workload(run, calls=LOOP_CALLS)


def _chain(path: CallPath, x: jax.Array, y: jax.Array) -> Workload:
    @jax.jit
    def chain(x: jax.Array, y: jax.Array) -> jax.Array:
        for _ in range(CHAIN_CALLS):
            x = _barrier(path.op(x, y))
        return x

    # XLA can share one computation between the calls of its own add. So only custom calls are counted.
    found = hlo.count(_compiled_text(chain, x, y), path.marker)
    if "custom_call" in path.marker and found != CHAIN_CALLS:
        raise WrongResultError(f"chain: {found} instructions match {path.marker!r}, expected {CHAIN_CALLS}")
    _expect(chain(x, y), x, y, CHAIN_CALLS, "chain")
    return Workload(_repeat(chain, x, y), calls=CHAIN_CALLS)


def _jit(path: CallPath, x: jax.Array, y: jax.Array) -> Workload:
    call = jax.jit(path.op)
    found = hlo.count(_compiled_text(call, x, y), path.marker)
    if found != 1:
        raise WrongResultError(f"jit: {found} compiled instructions match {path.marker!r}, expected 1")
    _expect(call(x, y), x, y, 1, "jit")
    return Workload(_repeat(call, x, y))


def _eager(path: CallPath, x: jax.Array, y: jax.Array) -> Workload:
    _expect(path.eager(x, y), x, y, 1, "eager")
    return Workload(_repeat(path.eager, x, y))


LOOP = Mode("loop", "in a jitted fori_loop", _loop)
CHAIN = Mode("chain", f"{CHAIN_CALLS}-call chain in one jit", _chain)
JIT = Mode("jit", "single jitted call", _jit)
EAGER = Mode("eager", "eager call", _eager)
