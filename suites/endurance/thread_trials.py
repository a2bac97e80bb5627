"""Calls mixed kernels from 16 threads on several devices.

In a trial of ``threads``, threads also trace, register, release and export, and every new kernel and program takes
memory. In a trial of ``thread-calls`` they only call what was compiled before, so memory must stay as it is.
"""

from __future__ import annotations

import ctypes
import functools
import math
import random
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
from llvmlite import binding

import bridge
from reports import Endurance
from suites.endurance.memory_use import MemoryUse
from suites.endurance.trial import DEFINING, XLA_THREADS, EnduranceTrial, TrialError, TrialUnavailableError

THREADS = 16
SIZE = 4096
SAMPLES = 40
LOOP = 30
"""Calls in a compiled loop."""

WARM_UP = 0.1
"""The share of a trial before its first sample of memory: each thread takes its stack and its part of the heap."""

ALLOWED_BYTES = 4 << 20
"""Growth of memory that is no leak, where nothing is defined: arenas and pools of libraries settle."""

_STEP = np.float32(0.5)

Array = np.ndarray[Any, Any]


@numba.njit
def _serial(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = x[i] + _STEP


@numba.njit(parallel=True)
def _parallel(x, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(x.size):
        out[i] = x[i] + _STEP


@numba.njit
def _calls_parallel(x, out):  # type: ignore[no-untyped-def]
    _parallel(x, out)


@dataclass(frozen=True)
class Op:
    """A function that adds one half to each element of a vector.

    Attributes:
        call: The function.
        platforms: Where it runs.
    """

    call: Callable[[jax.Array], jax.Array]
    platforms: tuple[str, ...] = ("cpu",)

    def in_loop(self, x: jax.Array) -> jax.Array:
        """Calls it :data:`LOOP` times."""
        result: jax.Array = jax.lax.fori_loop(0, LOOP, lambda _, carry: self.call(carry), x)
        return result

    @functools.cached_property
    def compiled_loop(self) -> Callable[[jax.Array], jax.Array]:
        """:meth:`in_loop`, compiled once for each device."""
        return jax.jit(self.in_loop)

    @functools.cached_property
    def compiled_batch(self) -> Callable[[jax.Array], jax.Array]:
        """A batch of two calls, compiled once for each device."""
        return jax.jit(lambda x: jax.vmap(self.call)(jnp.stack([x, x]))[1])


Step = Callable[[jax.Array, Op, random.Random], int]
"""Calls a function on an input, checks the results, and returns the number of calls."""


@dataclass
class _Shared:
    """What all threads of a trial use.

    Attributes:
        steps: What threads do, with its weight.
        ops: The functions.
        devices: The devices.
        inputs: The input on each device.
        end: When the threads end, by the monotonic clock.
        done: Calls of each thread.
        problem: What went wrong first.
    """

    steps: Mapping[Step, float]
    ops: Sequence[Op]
    devices: Sequence[jax.Device]
    inputs: dict[jax.Device, jax.Array]
    end: float = math.inf
    done: list[int] = field(default_factory=lambda: [0] * THREADS)
    problem: str | None = None


def endure_threads(trial: EnduranceTrial) -> Endurance:
    """Runs a trial of threads for ``seconds``. Growth is only reported where threads define kernels and programs.

    Raises:
        TrialError: A call raised, or gave a wrong result, or another threading layer ran.
        TrialUnavailableError: The threading layer is not installed.
    """
    _require_layer()
    if trial.subject == XLA_THREADS:
        _disable_layer()
    devices = jax.devices("cpu") + (jax.devices("cuda") if trial.platform == "cuda" else [])
    start = np.arange(SIZE, dtype=np.float32)
    defines = trial.kind == DEFINING
    shared = _Shared(
        _STEPS if defines else _CALLS, _ops(trial.platform), devices,
        {device: jax.device_put(start, device) for device in devices},
    )  # fmt: skip
    for device in devices:
        for op in _running_on(device, shared):
            with jax.default_device(device):
                for step in _CALLS:
                    step(shared.inputs[device], op, random.Random(0))
    threads = [threading.Thread(target=_work, args=(shared, index), daemon=True) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(WARM_UP * trial.seconds)
    memory = MemoryUse(trial.platform)
    memory.sample(sum(shared.done))
    shared.end = time.monotonic() + (1 - WARM_UP) * trial.seconds  # however long a busy machine took so far
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(trial.seconds / SAMPLES / THREADS)
        if sum(shared.done) > memory.samples[-1].count:
            memory.sample(sum(shared.done))
    if shared.problem is not None:
        raise TrialError(shared.problem)
    if trial.subject not in (XLA_THREADS, numba.threading_layer()):
        raise TrialError(f"Numba's threading layer was {numba.threading_layer()}, expected {trial.subject}")
    return Endurance(unit="call", samples=memory.samples, allowed_bytes=None if defines else ALLOWED_BYTES)


def _require_layer() -> None:
    from numba.np.ufunc.parallel import _launch_threads

    try:
        _launch_threads()
    except ValueError as error:
        raise TrialUnavailableError(f"Numba cannot load this threading layer: {str(error).splitlines()[0]}") from error


_NOTHING = ctypes.CFUNCTYPE(None)(lambda: None)


def _disable_layer() -> None:
    """Makes loops on the threading layer do nothing. So results are right only if all loops run on XLA's threads."""
    address = ctypes.cast(_NOTHING, ctypes.c_void_p).value
    binding.add_symbol("numba_parallel_for", address)


def _work(shared: _Shared, index: int) -> None:
    """Makes random steps until the end, or until a thread finds something wrong."""
    choose = random.Random(index)
    steps, weights = zip(*shared.steps.items(), strict=True)
    try:
        while time.monotonic() < shared.end and shared.problem is None:
            device = choose.choice(shared.devices)
            op = choose.choice(_running_on(device, shared))
            (step,) = choose.choices(steps, weights)
            with jax.default_device(device):
                shared.done[index] += step(shared.inputs[device], op, choose)
    except Exception as error:
        told = "".join(traceback.format_exception(error)).strip()
        shared.problem = shared.problem or f"thread {index}: {told}"


def _running_on(device: jax.Device, shared: _Shared) -> list[Op]:
    return [op for op in shared.ops if device.platform.replace("gpu", "cuda") in op.platforms]


def _expect(result: Any, calls: int, what: str) -> int:
    """Compares with so many additions of one half; returns their number."""
    expected = np.arange(SIZE, dtype=np.float32) + _STEP * calls
    wrong = int(np.sum(np.asarray(result) != expected))
    if wrong:
        raise TrialError(f"{what}: {wrong} of {expected.size} elements are wrong")
    return calls


def _call(x: jax.Array, op: Op, choose: random.Random) -> int:
    return _expect(op.call(op.call(x)), 2, "two calls")


def _compiled_loop(x: jax.Array, op: Op, choose: random.Random) -> int:
    return _expect(op.compiled_loop(x), LOOP, "a compiled loop of calls")


def _compiled_batch(x: jax.Array, op: Op, choose: random.Random) -> int:
    return _expect(op.compiled_batch(x), 1, "a compiled batch")


def _loop(x: jax.Array, op: Op, choose: random.Random) -> int:
    """Traces a loop, and runs it."""
    return _expect(op.in_loop(x), LOOP, "a loop of calls")


def _trace(x: jax.Array, op: Op, choose: random.Random) -> int:
    """Traces a program that no other thread has."""
    extra = choose.randrange(1000)
    return _expect(jax.jit(lambda x: op.call(x) + extra)(x) - extra, 1, "a new program")


def _batch(x: jax.Array, op: Op, choose: random.Random) -> int:
    return _expect(jax.vmap(op.call)(jnp.stack([x, x]))[1], 1, "a batch")


def _register(x: jax.Array, op: Op, choose: random.Random) -> int:
    """Defines a kernel, and registers it with an operator that runs at once."""
    amount = np.float32(choose.randrange(1, 50))

    @numba.njit
    def shift(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[i] + amount

    operator = bridge.XLACustomKernel("shift", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    operator.def_numba_kernel(lambda outs: bridge.numba_kernel(shift, outs[0]))
    host = jax.device_put(np.asarray(x), jax.devices("cpu")[0])
    return _expect(np.asarray(operator(host)) - amount + _STEP, 1, "a new kernel")


def _release(x: jax.Array, op: Op, choose: random.Random) -> int:
    bridge.release()
    return _call(x, op, choose)


def _export(x: jax.Array, op: Op, choose: random.Random) -> int:
    """Exports a program, and runs what another process would get."""
    (device,) = x.devices()
    platform = device.platform.replace("gpu", "cuda")
    program = jax.export.export(jax.jit(op.call), platforms=[platform], disabled_checks=bridge.export_checks())(x)
    return _expect(jax.export.deserialize(program.serialize()).call(x), 1, "an exported program")


_CALLS: dict[Step, float] = {_call: 80, _compiled_loop: 10, _compiled_batch: 10}
"""What threads do that only call, with its weight."""

_STEPS: dict[Step, float] = {_call: 80, _loop: 8, _trace: 3, _batch: 5, _register: 1, _release: 1, _export: 2}
"""What threads do that also define kernels and programs, with its weight."""


def _ops(platform: str) -> list[Op]:
    spec = jax.ShapeDtypeStruct((SIZE,), jnp.float32)
    operator = bridge.XLACustomKernel("add_half", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    operator.def_numba_kernel(lambda outs: bridge.numba_kernel(_serial, outs[0]))
    found = [Op(bridge.numba_kernel(kernel, spec)) for kernel in (_serial, _parallel, _calls_parallel)]
    found.append(Op(operator))
    try:
        from suites.endurance.warp_shifts import warp_shift
    except ImportError:
        pass
    else:
        shift = bridge.jax_kernel(warp_shift(float(_STEP)))
        found.append(Op(lambda x: shift(x)[0], ("cpu", "cuda") if platform == "cuda" else ("cpu",)))
    if platform == "cuda":
        found.append(_cuda_op(spec))
    return found


def _cuda_op(spec: jax.ShapeDtypeStruct) -> Op:
    try:
        from numba import cuda
    except ImportError as error:
        raise TrialUnavailableError("numba-cuda is not installed; install the extra cuda12 or cuda13") from error

    @cuda.jit
    def add_half(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + _STEP

    return Op(bridge.numba_cuda_kernel(add_half, spec, grid=SIZE // 256, block=256), ("cuda",))
