"""An operator's cell in, its stages before the steady state and a plan for sampling it out.

What is timed, and why so:

- Inputs lie on the device and are passed in: what a program closes over becomes a constant, and constants are folded.
- Every output is returned and waited for: a sample that waits for the first output alone misses the rest.
- On a GPU the device's own time is taken, see :mod:`suites.bench.gpu`.
- On a CPU, calls that take less than about 20 us are chained in a loop inside the program, see :func:`chain`; the loop
  is then far longer than the dispatch of the program, and its length is recorded.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reports import Stages, median_relative_error
from suites.backends.backend import Backend
from suites.bench import gpu
from suites.declare.operator import Operator
from suites.inputs.arrays import Inputs

CHAINED_BELOW_BYTES = 1 << 19
"""Declared bytes of a call below which calls are chained: what one core moves in about 20 us.

A property of the cell, not of a backend's speed, so that all backends of a cell, and all runs, are timed by one method.
"""

UNCHANGED = np.False_
"""What a program of :func:`chain` is told when it runs: that no input changes."""

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
    outs = operator.outputs(*inputs)
    if any(device.platform != "cpu" for device in jax.device_put(0).devices()):
        return _device_plan(operator, call, inputs, arguments)
    declared_bytes = operator.bytes_read(*inputs) + operator.bytes_written(*inputs)
    if declared_bytes >= CHAINED_BELOW_BYTES or not can_chain(outs, inputs):
        function = jax.jit(lambda *arrays: call(*arrays))
        jax.block_until_ready(function(*arguments))
        return Plan("wall", lambda: jax.block_until_ready(function(*arguments)), 1)
    chained = functools.partial(chain(call, outs, inputs), changes=jax.device_put(UNCHANGED), arguments=arguments)
    loops = _loops(chained)
    return Plan("carried_loop", lambda: jax.block_until_ready(chained(loops)), loops)


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


def chain(call: Callable[..., Any], outs: Sequence[Any], inputs: Sequence[Any]) -> Callable[..., Any]:
    """A program that runs ``call`` a number of times, always on the same inputs.

    The program takes ``loops``, the number of calls, ``changes``, which is :data:`UNCHANGED`, and the list of
    ``arguments``. If ``changes`` were true, the first element of the first output would replace the first element of an
    input after each call. XLA does not know what it will be, so it can neither leave a call out nor move one out of the
    loop; and no input ever changes, so a kernel whose inputs are indices stays within its arrays. Writing the element
    where it lies costs next to nothing. All outputs are carried, so that each call computes all of them, and the
    barrier keeps XLA from computing only the one element.

    Args:
        call: Takes the inputs and returns the outputs.
        outs: The outputs, anything with shape and dtype.
        inputs: The inputs, likewise. See :func:`can_chain`.
    """
    index = _written_input(outs, inputs)

    def body(_: Any, carried: Any) -> Any:
        (arguments, changes, element), _ = carried
        results = jax.tree.leaves(call(*arguments))
        arguments, results = jax.lax.optimization_barrier((list(arguments), results))
        if index is not None:
            new = results[0].reshape(-1)[0]
            new = (new.real if element.dtype.kind != "c" else new).astype(element.dtype)
            old = arguments[index]
            arguments[index] = old.at[(0,) * old.ndim].set(jnp.where(changes, new, element))
        return (arguments, changes, element), results

    @jax.jit
    def program(loops: Any, changes: Any, arguments: list[jax.Array]) -> Any:
        zeros = [jnp.zeros(out.shape, out.dtype) for out in outs]
        # Read before the loop: reading it in each turn would cost as much as a short kernel.
        element = arguments[index].reshape(-1)[0] if index is not None else None
        return jax.lax.fori_loop(0, loops, body, ((list(arguments), changes, element), zeros))[1]

    return program


def can_chain(outs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether :func:`chain` keeps every call: with no element to hand on, XLA would make one before the loop."""
    return _written_input(outs, inputs) is not None


def _written_input(outs: Sequence[Any], inputs: Sequence[Any]) -> int | None:
    """The input that an element would be written to: the largest, of the first output's dtype if there is one."""
    if not outs or not math.prod(outs[0].shape):
        return None
    sizes = {index: math.prod(array.shape) for index, array in enumerate(inputs) if math.prod(array.shape)}
    alike = [index for index in sizes if inputs[index].dtype == outs[0].dtype]
    return max(alike or sizes, key=lambda index: sizes[index], default=None)


def _loops(chained: Callable[[int], Any]) -> int:
    """A power of two, so that a sample takes about :data:`SAMPLE_NS`."""
    loops = 16
    jax.block_until_ready(chained(loops))
    while loops < 1 << 16:
        start = time.perf_counter_ns()
        jax.block_until_ready(chained(loops))
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
