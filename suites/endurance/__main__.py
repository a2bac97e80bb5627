"""Looks for leaks and races in long runs: ``python -m suites.endurance [cpu|cuda]``, as the nightly tests do.

``calls`` makes a million calls of one kernel in compiled loops, ``kernels`` defines, calls and releases a hundred
kernels, ``threads`` calls kernels from 16 threads. Each trial has a process of its own, so a crash costs only this one.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge

SIZE, THREADS, LIMIT_S = 1024, 16, 1800.0
ALLOWED_BYTES = {"calls": 4 << 20, "kernels": 400_000, "threads": 4 << 20}
"""Growth that is no leak: arenas of libraries settle, and loaded machine code stays (bytes a kernel)."""

TRIALS = {
    "cpu": [("calls", "numba"), ("calls", "warp"), ("kernels", "numba"), ("kernels", "warp"), ("threads", "xla")],
    "cuda": [("calls", "numba_cuda"), ("calls", "warp"), ("kernels", "numba_cuda"), ("kernels", "warp"),
             ("threads", "xla")],
}  # fmt: skip


def shifting(amount: float) -> Any:
    """Returns a new function of Numba that adds a number to a vector."""
    number = np.float32(amount)

    @numba.njit
    def shift(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[i] + number

    return shift


def adder(language: str, amount: float) -> Callable[[jax.Array], jax.Array]:
    """Returns a new kernel that adds a number to a vector."""
    out, number = jax.ShapeDtypeStruct((SIZE,), jnp.float32), np.float32(amount)
    if language == "numba":
        return bridge.numba_kernel(shifting(amount), out)
    if language == "numba_cuda":
        from numba import cuda

        @cuda.jit
        def shift_on_gpu(x, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i] + number

        return bridge.numba_cuda_kernel(shift_on_gpu, out, grid=SIZE // 256, block=256)
    from suites.endurance.warp_shifts import warp_shift

    wrapped = bridge.jax_kernel(warp_shift(amount))
    return lambda x: wrapped(x)[0]


def expect(result: Any, value: float, what: str) -> None:
    """Requires that every element has a value: it shows that every call ran exactly once."""
    if not np.all(np.asarray(result) == np.float32(value)):
        raise AssertionError(f"{what} gave {np.asarray(result)[:4]}, expected {value}")


def calls(language: str, count: int) -> int:
    """Makes calls in programs of 10,000; returns the growth of memory in bytes."""
    add, each = adder(language, 1), 10_000
    program = jax.jit(lambda x: jax.lax.fori_loop(0, each, lambda _, carry: add(carry), x))
    zeros = jnp.zeros(SIZE, jnp.float32)
    return _growth(lambda _: expect(program(zeros), each, f"{each} calls"), count // each)


def kernels(language: str, count: int) -> int:
    """Defines, calls and releases kernels; returns the growth of memory in bytes for each.

    Numba itself keeps memory for each function that it ever compiled: as much as without the bridge does not count.
    """

    def use(number: int) -> None:
        expect(adder(language, number)(jnp.zeros(SIZE, jnp.float32)), number, f"kernel {number}")
        jax.clear_caches()
        bridge.release()

    zeros = np.zeros(SIZE, np.float32)
    own = _growth(lambda number: shifting(number)(zeros, zeros), count) if language == "numba" else 0
    return (_growth(use, count) - own) // count


def threads(_: str, seconds: float) -> int:
    """Calls serial and parallel kernels from 16 threads; returns the growth of memory in bytes."""

    @numba.njit(parallel=True)
    def parallel(x, out):  # type: ignore[no-untyped-def]
        for i in numba.prange(x.size):
            out[i] = x[i] + np.float32(1)

    spread = bridge.numba_kernel(parallel, jax.ShapeDtypeStruct((SIZE,), jnp.float32))
    ops = [jax.jit(lambda x, op=op: op(op(x))) for op in (adder("numba", 1), spread)]
    zeros = jax.device_put(np.zeros(SIZE, np.float32), jax.devices("cpu")[0])
    failed: list[Exception] = []

    def work(end: float) -> None:
        try:
            while time.monotonic() < end and not failed:
                for op in ops:
                    expect(op(zeros), 2, "two calls")
        except Exception as error:
            failed.append(error)

    def round_of(number: int) -> None:
        end = time.monotonic() + seconds / 10
        workers = [threading.Thread(target=work, args=(end,), daemon=True) for _ in range(THREADS)]
        for step in (threading.Thread.start, threading.Thread.join):
            for worker in workers:
                step(worker)
        if failed:
            raise failed[0]

    return _growth(round_of, 10)


def _growth(use: Callable[[int], Any], count: int) -> int:
    """Returns the growth of resident memory from the first quarter on, after which caches and pools are filled."""
    warm = max(2, count // 4)
    for number in range(1, warm + 1):
        use(number)
    gc.collect()
    before = _resident()
    for number in range(warm + 1, warm + count + 1):
        use(number)
    gc.collect()
    return _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_trial(kind: str, subject: str, options: argparse.Namespace) -> int:
    """Runs one trial in this process; returns 1 if memory leaked. A wrong result or a fault raises."""
    amounts = {"calls": options.calls, "kernels": options.kernels, "threads": options.seconds}
    trial = {"calls": calls, "kernels": kernels, "threads": threads}[kind]
    with jax.default_device(jax.devices(options.device)[0]):
        growth = trial(subject, amounts[kind])
    leaks = growth > ALLOWED_BYTES[kind]
    unit = "bytes a kernel" if kind == "kernels" else "bytes"
    said = f"{amounts[kind]:,} {kind}, grew by {growth:,} {unit}"
    print(f"{kind:8} {subject:11} {'LEAKED' if leaks else 'PASSED'} {said}")
    return int(leaks)


def main(arguments: list[str] | None = None) -> int:
    """Runs the trials that the options choose, each in a process of its own; returns 1 if one failed."""
    parser = argparse.ArgumentParser("python -m suites.endurance", description=__doc__)
    parser.add_argument("device", nargs="?", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--trial", nargs=2, metavar=("KIND", "SUBJECT"), help="only this trial, in this process")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a trial of threads")
    options = parser.parse_args(arguments)
    if options.trial:
        faulthandler.enable()
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        kind, subject = options.trial
        return run_trial(kind, subject, options)
    failed = []
    for kind, subject in TRIALS[options.device]:
        given = [options.device, "--calls", options.calls, "--kernels", options.kernels, "--seconds", options.seconds]
        command = [sys.executable, "-m", "suites.endurance", *map(str, given), "--trial", kind, subject]
        if subprocess.run(command, check=False).returncode:
            failed.append(f"{kind} {subject}")
    print(f"failed: {', '.join(failed)}" if failed else "all trials passed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
