"""Attacks the bridge with drawn sequences of what users, threads and processes may do.

The attacks are rules of a state machine, in classes: identity (kernels that differ a little), lifetime (release while
programs run or wait), aliasing (kernels that write where they may not), threads, processes and JAX's tools. A model
says what each program returns. An attack succeeds if a result is wrong, an input changes, an error is lost, or the
process dies. Each step is printed before it is made, so that the last line names the step which killed the process::

    python -m suites.unit.bridge.adversary --examples 200
"""

from __future__ import annotations

import argparse
import copy
import functools
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import bridge
from suites.unit.bridge.dependencies import KINDS, SAME_RESULT, kernel_of
from suites.unit.processes import environment

SIZE = 4
X = np.arange(1, SIZE + 1, dtype=np.float32)
SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)

FACTORS = sorted(set(KINDS) - SAME_RESULT - {"import in the body"})
PORTABLE = sorted(set(FACTORS) - {"cfunc", "large array", "jitclass", "guvectorize"})
"""Kinds of kernels that other processes can run."""


@dataclass(frozen=True)
class Program:
    """Something that can be called with an array of :data:`SIZE` numbers.

    Attributes:
        call: The call.
        factor: What it multiplies its input with; None if it raises.
        batches: Whether ``jax.vmap`` may be applied to it.
    """

    call: Callable[[Any], Any]
    factor: float | None
    batches: bool = True


@functools.cache
def _module_kernel(kind: str, value: int) -> Any:
    """One of few kernels that live long; kernels of the same kind differ in the value alone."""
    return kernel_of(kind, value)


def _failing() -> Any:
    @numba.njit
    def fail(x, out):
        for i in range(x.size):
            if x[i] > 0:
                raise ValueError("the kernel fails")
            out[i] = x[i]

    return fail


def _failing_in_parallel() -> Any:
    @numba.njit
    def refuse(value):
        if value > 0:
            raise ValueError("the kernel fails")
        return value

    @numba.njit(parallel=True)
    def loop(x, out):
        for i in numba.prange(x.size):
            out[i] = refuse(x[i])

    @numba.njit
    def fail(x, out):
        loop(x, out)

    return fail


def _flat(x: Any, out: Any) -> None:
    out[:] = 2 * x
    x.flat[0] = 99


def _contiguous(x: Any, out: Any) -> None:
    out[:] = 2 * x
    np.ascontiguousarray(x)[0] = 99


def _reshaped(x: Any, out: Any) -> None:
    out[:] = 2 * x
    np.fill_diagonal(x.reshape(2, 2), 99)


def _iterated(x: Any, out: Any) -> None:
    out[:] = 2 * x
    for item in np.nditer(x):
        item[()] = 99


WAYS = ("jit", "vmap", "scan", "checkpoint", "lower", "deepcopy", "disable_jit")
"""The tools through which a program is called."""

WRITERS = (_flat, _contiguous, _reshaped, _iterated)
"""Kernels that write to their input, in ways that Numba's type checker does not see."""


class Adversary(RuleBasedStateMachine):
    """Draws a sequence of attacks."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: list[Program] = []
        self.pending: list[tuple[Any, float]] = []
        self.started = False

    def _say(self, *words: object) -> None:
        print(" ", *words, flush=True)

    def _check(self, program: Program, call: Callable[[Any], Any], x: Any = X) -> None:
        """Calls, and compares the result with the model's."""
        given = jnp.asarray(x)
        if program.factor is None:
            try:
                jax.block_until_ready(call(given))
            except (jax.errors.JaxRuntimeError, ValueError):
                return
            raise AssertionError("an error was lost")
        np.testing.assert_array_equal(call(given), program.factor * np.asarray(x))
        np.testing.assert_array_equal(given, x)

    @initialize()
    def begin(self) -> None:
        print("begin", flush=True)

    # identity

    @rule(kind=st.sampled_from(FACTORS), value=st.sampled_from((2, 3)), fresh=st.booleans())
    def define(self, kind: str, value: int, fresh: bool) -> None:
        self._say("define", kind, value, fresh)
        kernel = kernel_of(kind, value) if fresh else _module_kernel(kind, value)
        program = Program(bridge.numba_kernel(kernel, SPEC), value)
        self._check(program, program.call)
        self.programs.append(program)

    @rule(kind=st.sampled_from(FACTORS))
    def define_without_calling(self, kind: str) -> None:
        self._say("define without calling", kind)
        self.programs.append(Program(bridge.numba_kernel(kernel_of(kind, 2), SPEC), 2))

    @rule(before=st.sampled_from((2.0, 3.0)), after=st.sampled_from((2.0, 3.0)))
    def change_a_global_before_the_trace(self, before: float, after: float) -> None:
        self._say("change a global before the trace", before, after)
        found: dict[str, Any] = {"SCALE": before, "numba": numba}
        source = "def kernel(x, out):\n    for i in range(x.size):\n        out[i] = x[i] * SCALE\n"
        exec(source, found)
        program = Program(bridge.numba_kernel(numba.njit(found["kernel"]), SPEC), after)
        found["SCALE"] = after
        self._check(program, program.call)
        self.programs.append(program)

    # errors

    @rule(parallel=st.booleans())
    def define_one_that_fails(self, parallel: bool) -> None:
        self._say("define one that fails", parallel)
        kernel = _failing_in_parallel() if parallel else _failing()
        program = Program(bridge.numba_kernel(kernel, SPEC), None)
        self._check(program, program.call)
        self.programs.append(program)

    # aliasing

    @rule(kernel=st.sampled_from(WRITERS), batch=st.booleans())
    def write_to_an_input(self, kernel: Any, batch: bool) -> None:
        self._say("write to an input", kernel.__name__, batch)
        call = bridge.numba_kernel(numba.njit(kernel), SPEC)
        program = Program(call, 2.0)
        self._check(program, jax.vmap(call) if batch else call, np.stack([X, X + 5]) if batch else X)
        self.programs.append(program)

    @precondition(lambda self: self.programs)
    @rule(data=st.data())
    def donate(self, data: Any) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("donate", program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            donating = jax.jit(lambda x: program.call(x) + 0, donate_argnums=0)
            if program.factor is not None:
                np.testing.assert_array_equal(donating(jnp.array(X)), program.factor * X)

    # lifetime

    @precondition(lambda self: self.programs)
    @rule(data=st.data(), times=st.integers(1, 20))
    def call_and_do_not_wait(self, data: Any, times: int) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("call and do not wait", program, times)
        if program.factor is not None:
            self.pending += [(program.call(jnp.asarray(X)), program.factor) for _ in range(times)]

    @rule()
    def wait(self) -> None:
        self._say("wait")
        for result, factor in self.pending:
            np.testing.assert_array_equal(result, factor * X)
        self.pending.clear()

    @precondition(lambda self: self.programs)
    @rule(data=st.data(), caches=st.booleans())
    def drop_and_release(self, data: Any, caches: bool) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("drop and release", program, caches)
        self.programs.remove(program)
        del program
        if caches:
            jax.clear_caches()
        bridge.release()

    @precondition(lambda self: self.programs)
    @rule(data=st.data())
    def export(self, data: Any) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("export", program)
        exported = _exported(program.call)
        self.programs.append(Program(jax.export.deserialize(exported.serialize()).call, program.factor, batches=False))

    # threads

    @precondition(lambda self: self.programs)
    @rule(data=st.data(), releasing=st.booleans())
    def call_from_threads(self, data: Any, releasing: bool) -> None:
        programs = data.draw(st.lists(st.sampled_from(self.programs), min_size=2, max_size=4))
        self._say("call from threads", programs, releasing)
        failures: list[BaseException] = []

        def work(program: Program) -> None:
            try:
                for _ in range(20):
                    self._check(program, program.call)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(program,)) for program in programs]
        for thread in threads:
            thread.start()
        if releasing:
            bridge.release()
        for thread in threads:
            thread.join()
        assert not failures, failures

    # processes

    @rule(kind=st.sampled_from(PORTABLE), defined=st.sampled_from((2, 3)))
    def run_in_another_process(self, kind: str, defined: int) -> None:
        self._say("run in another process", kind, defined)
        if self.started:  # a process takes seconds
            return
        self.started = True
        call = bridge.numba_kernel(_module_kernel(kind, 2), SPEC)
        exported = _exported(call)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "program")
            file.write_bytes(exported.serialize())
            command = [sys.executable, "-c", _ELSEWHERE, str(file), kind, str(defined)]
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment(JAX_PLATFORMS="cpu"), timeout=300
            )
        expected = str((2 * X).tolist()) if defined == 2 else "not defined"
        assert done.stdout.strip() == expected, (done.stdout, done.stderr)

    # tools

    @precondition(lambda self: self.programs)
    @rule(data=st.data(), how=st.sampled_from(WAYS))
    def call_through(self, data: Any, how: str) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("call through", how, program)
        call, x = program.call, X
        if how == "vmap" and program.batches:
            call, x = jax.vmap(jax.jit(call)), np.stack([X, X + 3])
        elif how == "scan":
            call, x = functools.partial(_scanned, program.call), np.stack([X, X + 3])
        elif how == "lower":
            call = jax.jit(program.call).lower(SPEC).compile()
        elif how == "deepcopy" and program.batches:
            call = copy.deepcopy(program.call)
        elif how == "checkpoint":
            call = jax.jit(jax.checkpoint(program.call))
        elif how == "jit":
            call = jax.jit(lambda x: program.call(x) * 1)
        if how == "disable_jit":
            with jax.disable_jit():
                self._check(program, call, x)
        else:
            self._check(program, call, x)

    @precondition(lambda self: self.programs)
    @rule(data=st.data(), tool=st.sampled_from(("jax_debug_nans", "jax_enable_checks", "jax_check_tracer_leaks")))
    def call_with(self, data: Any, tool: str) -> None:
        program = data.draw(st.sampled_from(self.programs))
        self._say("call with", tool, program)
        jax.config.update(tool, True)
        try:
            self._check(program, lambda x: jax.jit(program.call)(x))
        finally:
            jax.config.update(tool, False)

    def teardown(self) -> None:
        self.wait()


def _exported(call: Callable[[Any], Any]) -> jax.export.Exported:
    return jax.export.export(jax.jit(call), platforms=["cpu"], disabled_checks=bridge.export_checks())(SPEC)


def _scanned(call: Callable[[Any], Any], xs: Any) -> Any:
    return jax.lax.scan(lambda carry, x: (carry, call(x)), None, xs)[1]


_ELSEWHERE = """
import sys
import jax, jax.export
from suites.unit.bridge.adversary import SPEC, X
from suites.unit.bridge.dependencies import kernel_of
import bridge
file, kind, value = sys.argv[1:]
call = bridge.numba_kernel(kernel_of(kind, int(value)), SPEC)
program = jax.export.deserialize(open(file, "rb").read())
try:
    print(program.call(X).tolist())
except jax.errors.JaxRuntimeError as error:
    print("not defined" if "has not defined" in str(error) else error)
"""


def main() -> None:
    """Attacks as often as the command line asks for. Exits with an error at the first attack that succeeds."""
    parser = argparse.ArgumentParser(description="Attack the bridge with drawn sequences of calls.")
    parser.add_argument("--examples", type=int, default=10, help="how many sequences to draw")
    parser.add_argument("--steps", type=int, default=15, help="the most attacks in one sequence")
    parser.add_argument("--random", action="store_true", help="draw other sequences at each run")
    parser.add_argument("--shrink", action="store_true", help="look for a shorter sequence that succeeds too")
    chosen = parser.parse_args()
    run_state_machine_as_test(
        Adversary,
        settings=settings(
            max_examples=chosen.examples,
            stateful_step_count=chosen.steps,
            derandomize=not chosen.random,
            phases=(Phase.generate, Phase.shrink) if chosen.shrink else (Phase.generate,),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


if __name__ == "__main__":
    main()
