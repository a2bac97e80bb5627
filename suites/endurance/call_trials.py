"""Makes millions of native calls of one kernel, in compiled loops, and samples memory between the programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bridge
from reports import Endurance
from suites.dispatch import hlo, paths_cpu
from suites.dispatch.path import CallPath, PathUnavailableError, custom_call
from suites.dispatch.platforms import Platform
from suites.endurance.memory_use import MemoryUse
from suites.endurance.trial import EnduranceTrial, TrialError, TrialUnavailableError

CHAINED = 100
"""Calls in one turn of the loop. XLA records them into one CUDA graph; a loop of single calls waits for each turn."""

SAMPLES = 100
"""Samples of a trial, at most."""

MOST_CALLS = 1_000_000
"""Calls of one program, at most: each adds 1, and float32 holds all whole numbers up to 2**24."""

ALLOWED_BYTES = 4 << 20
"""Growth of memory over all calls that is no leak: the arenas and pools of libraries settle."""

_CUDA_SOURCE = """
extern "C" __global__ void add(const float* x, const float* y, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] + y[i];
}
"""


def endure_calls(trial: EnduranceTrial) -> Endurance:
    """Runs a trial of calls.

    Each program adds 1 in every call, so its result shows that each call ran exactly once.

    Args:
        trial: ``count`` is rounded up to whole programs.

    Raises:
        TrialError: A result is wrong, or XLA's program has not as many calls.
        TrialUnavailableError: The kernel language is not installed.
    """
    platform = _platform(trial.platform)
    try:
        path = _path(platform, trial.subject)
    except PathUnavailableError as error:
        raise TrialUnavailableError(str(error)) from error
    device = jax.devices(trial.platform)[0]
    start = np.zeros(platform.size, np.float32)
    x, y = jax.device_put(start, device), jax.device_put(np.ones_like(start), device)
    program = _program(path).lower(np.int32(1), x, y).compile()
    found = hlo.count_in_loops(str(program.as_text()), path.marker)
    if found != CHAINED:
        raise TrialError(f"{found} calls in the loop of the compiled program match {path.marker!r}, expected {CHAINED}")
    turns = max(1, min(MOST_CALLS, -(-trial.count // SAMPLES)) // CHAINED)
    calls = turns * CHAINED
    programs = max(2, -(-trial.count // calls))
    often = -(-programs // SAMPLES)

    def run() -> None:
        result = np.asarray(program(np.int32(turns), x, y))
        if not np.all(result == calls):
            raise TrialError(f"{calls} calls that add 1 to 0 gave {result.ravel()[:4]}...; expected {calls}")

    memory = MemoryUse(trial.platform)
    for _ in range(2):
        run()
    memory.sample(0)
    for done in range(1, programs + 1):
        run()
        if done % often == 0 or done == programs:
            memory.sample(done * calls)
    return Endurance(unit="call", samples=memory.samples, allowed_bytes=ALLOWED_BYTES)


def _program(path: CallPath) -> Any:
    """Returns a jitted function of the number of turns and two arrays, which adds the second one in every call."""

    def program(turns: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        def turn(_: Any, carry: jax.Array) -> jax.Array:
            for _call in range(CHAINED):
                carry = path.op(carry, y)
            return carry

        result: jax.Array = jax.lax.fori_loop(0, turns, turn, x)
        return result

    return jax.jit(program)


def _platform(name: str) -> Platform:
    if name == "cpu":
        return paths_cpu.CPU
    from suites.dispatch import paths_cuda

    return paths_cuda.CUDA


def _path(platform: Platform, subject: str) -> CallPath:
    if subject == "cuda-raw":
        out = jax.ShapeDtypeStruct((platform.size,), jnp.float32)
        wrapped = bridge.cuda_raw_kernel(_CUDA_SOURCE, "add", out, launch_dims=platform.size)
        return CallPath(wrapped, wrapped, custom_call("bridge_cuda"))
    (spec,) = (spec for spec in platform.paths if spec.name == subject)
    return spec.build()
