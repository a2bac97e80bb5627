"""An operator's cell in, its stages before the steady state and a plan for sampling it out.

What is timed, and why so:

- Inputs lie on the device and are passed in: what a program closes over becomes a constant, and constants are folded.
- Every output is returned and waited for: a sample that waits for the first output alone misses the rest.
- On a GPU the device's own time is taken, see :mod:`suites.gpu`.
- On a CPU, calls that take less than about 20 us are chained in a loop inside the program, see :func:`chain`; the loop
  is then far longer than the dispatch of the program, and its length is recorded.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from reports import Stages, median_relative_error
from suites import gpu
from suites.backends import Backend
from suites.operator import Inputs, Operator

CHAINED_BELOW_BYTES = 1 << 19
"""Declared bytes of a call below which calls are chained: what one core moves in about 20 us.

A property of the cell, not of a backend's speed, so that all backends of a cell, and all runs, are timed by one method.
"""

LEAST_SAMPLES = 30
RELATIVE_ERROR = 0.005
SAMPLE_NS = 400_000
"""How long the calls of one chained sample should take together."""


@dataclass(frozen=True)
class Plan:
    """How one cell is timed.

    Attributes:
        method: As recorded: ``wall``, ``carried_loop`` or ``cupti``.
        run: Takes one sample: runs ``loops`` calls and waits for all outputs.
        loops: Calls in one sample.
        cache: State of the caches before a call: ``hot`` with its data as far as they fit, or ``cold``.
        seconds: Where ``run`` leaves its samples if it takes its own; None if running it is what is timed.
    """

    method: str
    run: Callable[[], Any]
    loops: int
    cache: str = "hot"
    seconds: list[float] | None = None


def stages(operator: Operator, backend: Backend, inputs: Inputs) -> tuple[Stages, Any]:
    """Times each stage up to the first result, and returns the compiled program.

    The kernel itself is compiled while JAX traces, once per process for each combination of dtypes; cells that come
    later find it there.
    """
    call = operator.build(backend, inputs)
    arguments = [jax.device_put(array) for array in inputs]
    clock = [time.perf_counter()]

    def lap(result: Any) -> Any:
        clock.append(time.perf_counter())
        return result

    # A function of its own, so that nothing is found in JAX's caches.
    traced = lap(jax.jit(lambda *arrays: call(*arrays)).trace(*arguments))
    lowered = lap(traced.lower())
    program = lap(lowered.compile())
    lap(jax.block_until_ready(program(*arguments)))
    trace_ms, lower_ms, compile_ms, first_call_ms = (1e3 * (end - start) for start, end in itertools.pairwise(clock))
    return Stages(trace_ms=trace_ms, lower_ms=lower_ms, compile_ms=compile_ms, first_call_ms=first_call_ms), program


def plan(operator: Operator, backend: Backend, inputs: Inputs) -> Plan:
    """Decides how a cell is timed, and compiles what is needed for it."""
    call = operator.build(backend, inputs)
    arguments = [jax.device_put(array) for array in inputs]
    if any(device.platform != "cpu" for device in arguments[0].devices()):
        return _device_plan(operator, call, inputs, arguments)
    if operator.bytes_read(*inputs) + operator.bytes_written(*inputs) >= CHAINED_BELOW_BYTES:
        function = jax.jit(lambda *arrays: call(*arrays))
        jax.block_until_ready(function(*arguments))
        return Plan("wall", lambda: jax.block_until_ready(function(*arguments)), 1)
    chained = chain(call, operator.outputs(*inputs), operator.feedback)
    loops = _loops(chained, arguments)
    return Plan("carried_loop", lambda: jax.block_until_ready(chained(loops, arguments)), loops)


def _device_plan(operator: Operator, call: Callable[..., Any], inputs: Inputs, arguments: list[Any]) -> Plan:
    """Device times of single calls, a batch at a time."""
    function = jax.jit(lambda *arrays: call(*arrays))
    written = operator.bytes_written(*inputs)
    cache = "cold" if gpu.is_cold(operator.bytes_read(*inputs) + written) else "hot"
    method, seconds = gpu.method(), list[float]()
    measure = gpu.cupti_seconds if method == "cupti" else gpu.wall_seconds

    def run() -> None:
        seconds.extend(measure(function, arguments, gpu.batch_size(written)))

    return Plan(method, run, 1, cache, seconds)


def chain(call: Callable[..., Any], outs: Sequence[Any], feedback: int) -> Callable[[Any, list[Any]], Any]:
    """A program that runs ``call`` a number of times (its first argument), each on data from the one before.

    All outputs are carried, so each call computes all of them; and the first element of the first output replaces the
    first element of one input, so no call can start before the one before has ended, be left out, or be moved out of
    the loop. Replacing one element in place costs next to nothing, where handing over a whole array would cost a copy
    in those backends that cannot work in place. The barrier keeps XLA from computing only that one element.
    """
    first = outs[0]

    def body(_: Any, carried: tuple[list[jax.Array], list[jax.Array]]) -> tuple[list[jax.Array], list[jax.Array]]:
        arguments, _ = carried
        results = jax.tree.leaves(call(*arguments))
        arguments, results = jax.lax.optimization_barrier((arguments, results))
        if math.prod(first.shape):
            fed = arguments[feedback]
            element = results[0].reshape(-1)[0].astype(fed.dtype)
            arguments = list(arguments)
            arguments[feedback] = fed.at[(0,) * fed.ndim].set(element)
        return arguments, results

    @jax.jit
    def program(loops: Any, arguments: list[jax.Array]) -> Any:
        zeros = [jnp.zeros(out.shape, out.dtype) for out in outs]
        return jax.lax.fori_loop(0, loops, body, (list(arguments), zeros))[1]

    return program


def _loops(chained: Callable[[Any, list[Any]], Any], arguments: list[Any]) -> int:
    """A power of two, so that a sample takes about :data:`SAMPLE_NS`."""
    loops = 16
    jax.block_until_ready(chained(loops, arguments))
    while loops < 1 << 16:
        start = time.perf_counter_ns()
        jax.block_until_ready(chained(loops, arguments))
        if time.perf_counter_ns() - start >= SAMPLE_NS / 2:
            break
        loops *= 2
    return loops


class StopRule:
    """Says when there are enough samples: the median is known well, or its uncertainty no longer shrinks, or time is
    up.

    Args:
        limit_s: Seconds after which sampling ends (the least number of samples taken, or three limits over).
    """

    def __init__(self, limit_s: float):
        self._limit_s = limit_s
        self._start = time.perf_counter()
        self._checked = 0
        self._errors: list[float] = []

    def reason(self, samples: Sequence[float]) -> str | None:
        """Why to stop now, or None to go on."""
        elapsed = time.perf_counter() - self._start
        if elapsed > 3 * self._limit_s and samples:
            return "time limit"
        if len(samples) < LEAST_SAMPLES or len(samples) < self._checked + LEAST_SAMPLES:
            return None
        self._checked = len(samples)
        error = median_relative_error(list(samples))
        if error < RELATIVE_ERROR:
            return "median known to 0.5 %"
        # With independent noise the error falls by the square root of the number of samples; where four times as many
        # samples did not lower it, more will not either.
        self._errors.append(error)
        if len(self._errors) >= 8 and error > 0.9 * self._errors[len(self._errors) // 4 - 1]:
            return "stable noise"
        return "time limit" if elapsed > self._limit_s else None
