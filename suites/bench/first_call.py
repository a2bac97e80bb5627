"""Times the stages of a cell up to its first result: tracing, lowering, compiling, the first call."""

from __future__ import annotations

import itertools
import time
from typing import Any

import jax

from reports import Stages
from suites.backends.backend import Backend
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs


class FirstCallError(Exception):
    """The first call of a compiled program raised an exception: its kernel is at fault, not the compiler.

    Attributes:
        error: The exception.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def stages(operator: Operator, backend: Backend, inputs: Inputs) -> tuple[Stages, Any]:
    """Times each stage up to the first result, in milliseconds, and returns the compiled program too.

    The kernel itself is compiled while JAX traces, once per process for each combination of dtypes. Later cells reuse
    it, so their tracing takes less time.

    Raises:
        FirstCallError: The first call raised an exception.
    """
    call = operator.build(backend, inputs)
    arguments = [jax.device_put(array) for array in inputs]
    clock = [time.perf_counter()]

    def lap(result: Any) -> Any:
        clock.append(time.perf_counter())
        return result

    # JAX's caches hold nothing of a new function.
    traced = lap(jax.jit(lambda *arrays: call(*arrays)).trace(*arguments))
    lowered = lap(traced.lower())
    program = lap(lowered.compile())
    try:
        lap(jax.block_until_ready(program(*arguments)))
    except Exception as error:
        raise FirstCallError(error) from error
    trace_ms, lower_ms, compile_ms, first_call_ms = (1e3 * (end - start) for start, end in itertools.pairwise(clock))
    return Stages(trace_ms=trace_ms, lower_ms=lower_ms, compile_ms=compile_ms, first_call_ms=first_call_ms), program
