"""Decides how a cell is timed, and compiles the program for it.

- Inputs lie on the device and are passed in: XLA turns arrays that a program closes over into constants.
- Every output is returned and waited for: a sample that waits for the first output alone misses the others.
- On a GPU the device's own time counts, see :mod:`suites.bench.gpu`.
- On a CPU, short calls are chained in a loop inside the program, see :mod:`suites.bench.chained_calls`. The loop is
  far longer than the dispatch of the program, and its length is recorded.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from suites.backends.backend import Backend
from suites.bench import gpu
from suites.bench.chained_calls import UNCHANGED, can_chain, chain
from suites.checks.judging.refilled_memory import RefilledMemory
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs

CHAINED_BELOW_BYTES = 1 << 19
"""Declared bytes of a call below which calls are chained: as many as one core moves in about 20 us.

The bytes belong to the cell and not to a backend, so all backends of a cell, and all runs, are timed by one method.
"""

SAMPLE_NS = 400_000
"""How long the calls of one chained sample should take together."""


@dataclass(frozen=True)
class Plan:
    """How one cell is timed.

    Attributes:
        method: As recorded: ``wall``, ``carried_loop`` or ``cupti``.
        run: Makes ``loops`` calls and waits for all outputs.
        loops: Calls in one sample.
        cache: State of the caches before a call: ``hot`` (its data lies there, as far as it fits) or ``cold``.
        device_seconds: Yields measured times of single calls, without end; None where the time of ``run`` counts.
        batch: How many times ``device_seconds`` measures together; 1 without it.
        on_other: Runs the timed program on other inputs, which take the addresses of the timed ones, and returns its
            results. The timed inputs are gone then, so nothing can be timed afterwards.
    """

    method: str
    run: Callable[[], Any]
    loops: int
    cache: str = "hot"
    device_seconds: Iterator[float] | None = None
    batch: int = 1
    on_other: Callable[[Inputs], Any] = lambda inputs: None


def plan(operator: Operator, backend: Backend, inputs: Inputs) -> Plan:
    """Decides how a cell is timed, and compiles the program for it."""
    call = operator.build(backend, inputs)
    (device,) = jax.device_put(0).devices()
    memory = RefilledMemory(inputs, device)
    arguments = memory.fill(inputs)
    outs = operator.outputs(*inputs)
    if device.platform != "cpu":
        return _device_plan(operator, call, inputs, memory, arguments)
    declared_bytes = operator.bytes_read(*inputs) + operator.bytes_written(*inputs)
    if declared_bytes >= CHAINED_BELOW_BYTES or not can_chain(outs, inputs):
        function = jax.jit(lambda *arrays: call(*arrays))
        jax.block_until_ready(function(*arguments))
        return Plan(
            "wall",
            lambda: jax.block_until_ready(function(*arguments)),
            1,
            on_other=lambda inputs: function(*memory.fill(inputs)),
        )
    chained = functools.partial(chain(call, outs, inputs), changes=jax.device_put(UNCHANGED))
    loops = _loops(functools.partial(chained, arguments=arguments))
    return Plan(
        "carried_loop",
        lambda: jax.block_until_ready(chained(loops, arguments=arguments)),
        loops,
        on_other=lambda inputs: chained(loops, arguments=memory.fill(inputs)),
    )


def _device_plan(
    operator: Operator, call: Callable[..., Any], inputs: Inputs, memory: RefilledMemory, arguments: list[Any]
) -> Plan:
    """Plans device times of single calls, a batch at a time."""
    function = jax.jit(lambda *arrays: call(*arrays))
    written = operator.bytes_written(*inputs)
    cache = "cold" if gpu.is_cold(operator.bytes_read(*inputs) + written) else "hot"
    method, batch = gpu.method(), gpu.batch_size(written)
    measure = gpu.cupti_seconds if method == "cupti" else gpu.wall_seconds

    def seconds() -> Iterator[float]:
        while True:
            yield from measure(function, arguments, batch)

    return Plan(
        method,
        lambda: jax.block_until_ready(function(*arguments)),
        1,
        cache,
        seconds(),
        batch,
        on_other=lambda inputs: function(*memory.fill(inputs)),
    )


def _loops(chained: Callable[[int], Any]) -> int:
    """Returns a power of two for which a sample takes about :data:`SAMPLE_NS`."""

    def elapsed_ns() -> int:
        start = time.perf_counter_ns()
        jax.block_until_ready(chained(loops))
        return time.perf_counter_ns() - start

    loops = 16
    jax.block_until_ready(chained(loops))
    # The fastest of three: one that the operating system interrupts would end the search too early.
    while loops < 1 << 16 and min(elapsed_ns() for _ in range(3)) < SAMPLE_NS / 2:
        loops *= 2
    return loops
