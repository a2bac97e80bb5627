"""Prepares a cell in this process: checks it, compiles its programs, and keeps the times of its repetitions.

The timed calls have equal inputs. So a kernel that returns an old result, or does nothing after its first thousand
calls, would look fast and right. The checks after timing find it.
"""

from __future__ import annotations

import itertools
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from reports import CellResult, ProcessTimes, RecordError, Stages, Status, Timing
from suites.backends import Backend
from suites.cells.case import SEED, Case, input_types, sample
from suites.cells.repeated_inputs import REPEATED_ABOVE
from suites.checks.judging.call_loops import keeps_bits
from suites.checks.judging.cell_verdict import judge_all, judge_kernel, judge_results, poisoned_program
from suites.checks.judging.memory import POISONS, run_poisoned
from suites.checks.judging.reasons import error_text, status_of, with_inputs
from suites.declare.operator import Operator
from suites.kernels.library import LibraryProgram
from suites.numerics.arrays import Array, Inputs, fingerprint, same_bits, specs
from suites.numerics.verdict import ResultVerdict
from suites.timing.cuda_measurement import CudaMeasurement
from suites.timing.kernel_facts import arithmetic, code_lines, launch_of
from suites.timing.loops import Programs
from suites.timing.measurement import Measurement, SingleCalls, TwoPoints
from suites.timing.resources import resources


class FirstCallError(Exception):
    """The first call of a compiled program raised an exception: its kernel is at fault, not the compiler.

    Attributes:
        error: The exception.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def stages(operator: Operator, backend: Backend, inputs: Inputs) -> Stages:
    """Times each stage up to the first result, in milliseconds.

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

    def fresh(*arrays: Any) -> Any:
        return call(*arrays)

    # A new function is in no cache of JAX, and a new name in no file of another process.
    fresh.__name__ = f"fresh_{uuid.uuid4().hex}"
    traced = lap(jax.jit(fresh).trace(*arguments))
    lowered = lap(traced.lower())
    program = lap(lowered.compile())
    try:
        lap(jax.block_until_ready(program(*arguments)))
    except Exception as error:
        raise FirstCallError(error) from error
    trace_ms, lower_ms, compile_ms, first_call_ms = (1e3 * (end - start) for start, end in itertools.pairwise(clock))
    return Stages(trace_ms=trace_ms, lower_ms=lower_ms, compile_ms=compile_ms, first_call_ms=first_call_ms)


def judge_library(case: Case, inputs: Inputs) -> ResultVerdict:
    """Judges a call of a library on these inputs; a failure is a status with a reason, not an exception.

    It makes two calls, requires that the inputs are unchanged, and compares the results of the second call with the
    truth: its memory may still hold the results of the first one.

    Args:
        case: The cell. Its device must be JAX's default device, and JAX's precision must be that of the inputs.
        inputs: The inputs.
    """
    arguments = [jax.device_put(array.copy(), case.device) for array in inputs]
    try:
        run = library_program(case, inputs).bound(*arguments)
        jax.block_until_ready(run())
        results = [np.array(leaf, order="C") for leaf in jax.block_until_ready(run())]
    except Exception as error:
        return ResultVerdict(status_of(error), error_text(error), None)
    if not same_bits([np.asarray(array) for array in arguments], inputs):
        return ResultVerdict(Status.INPUT_MUTATED, "an input has other bits after the call than before", None)
    return with_inputs(judge_all(case.operator, results, inputs=inputs), case.operator, inputs)


def library_programs(case: Case, inputs: Inputs) -> Programs:
    """Returns the programs that time a call of a library: one call, and on a CPU several calls from Python."""
    program = library_program(case, inputs)
    return Programs(single=program, chained=program.repeated if case.platform == "cpu" else None)


def library_program(case: Case, inputs: Inputs) -> LibraryProgram:
    """Returns the call of a cell's library as a program."""
    program: LibraryProgram = case.operator.build(case.backend, inputs)  # type: ignore[assignment]
    return program


OTHER_SEED = SEED + 1

_PASSED = ResultVerdict(Status.PASSED, None, None)


class CheckAfterTiming:
    """Keeps the results of a kernel before it is timed, on the timed inputs and on others, to compare them afterwards.

    Make it, and call it, in the precision of the inputs and with the case's device as JAX's default device.

    Args:
        case: The cell.
        inputs: The timed inputs.
    """

    def __init__(self, case: Case, inputs: Inputs):
        self._case = case
        # Digests, because a session holds many cells.
        self._before = [fingerprint(self._call(each)) for each in (inputs, self._other())]

    def verdict(self, run: Callable[[Inputs], Any]) -> ResultVerdict:
        """Judges the timed program on the other inputs, and a single call on the timed ones.

        Args:
            run: Runs the timed program on inputs that take the addresses of the timed ones, and returns its results.
        """
        timed = [np.asarray(leaf) for leaf in jax.tree.leaves(run(self._other()))]
        verdict = self._same(timed, self._before[1], self._other(), "after timing, the timed program on other inputs")
        if verdict.status is not Status.PASSED:
            return verdict
        inputs = self._case.inputs()
        return self._same(self._call(inputs), self._before[0], inputs, "after timing, a single call")

    def _other(self) -> Inputs:
        return sample(self._case.operator, self._case.dtype, self._case.size, OTHER_SEED)

    def _call(self, inputs: Inputs) -> list[Array]:
        program = poisoned_program(self._case.operator, self._case.backend, specs(inputs), self._case.device)
        # Copies lie at other addresses than the timed inputs.
        arguments = [jax.device_put(array.copy()) for array in inputs]
        return run_poisoned(program, self._case.operator.outputs(*inputs), arguments, POISONS[0])

    def _same(self, results: Sequence[Array], before: str, inputs: Inputs, where: str) -> ResultVerdict:
        if fingerprint(results) == before:
            return _PASSED
        verdict = judge_results(self._case.operator, inputs, results)
        if verdict.status is not Status.PASSED:
            return ResultVerdict(verdict.status, f"{where}: {verdict.reason}", verdict.accuracy)
        if keeps_bits(self._case):
            return ResultVerdict(Status.NONDETERMINISTIC, f"{where}: other bits than before it", None)
        return _PASSED


class TimedCell:
    """A cell in one process.

    Attributes:
        case: The cell.
        result: Its result so far; the status is PASSED as long as nothing went wrong.
        programs: The compiled programs; None before :meth:`prepare`, and where it failed.
        moved: Bytes that a call must read, and bytes that it must write; None before :meth:`prepare`.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.result = CellResult(cell=case.cell, shapes=[], dtypes=[], seed=SEED, status=Status.PASSED)
        self.programs: Programs | None = None
        self._check_after: CheckAfterTiming | None = None
        self._loops: int | None = None
        self.moved: tuple[int, int] | None = None
        self._repetitions: list[ProcessTimes] = []

    def prepare(self, *, checks: bool) -> None:
        """Compiles the programs of the cell.

        Args:
            checks: Whether to time the compiler and check the results too. One process of a session does this.
        """
        case = self.case
        try:
            inputs = case.inputs()
            shapes, dtypes = input_types(inputs)
            read, written = case.operator.bytes_read(*inputs), case.operator.bytes_written(*inputs)
            self.note(shapes=shapes, dtypes=dtypes, flops=case.operator.flops(*inputs), bytes=read + written)
            self.note(remarks=case.operator.remarks or None, arithmetic=arithmetic(case))
            self.note(code_lines=code_lines(case.operator.kernels.get(case.backend)), launch=launch_of(case, inputs))
            self.moved = read, written
            self._compile(inputs, checks)
        except Exception as error:
            self.fail(error)

    @property
    def is_alive(self) -> bool:
        """Whether the cell can be timed."""
        return self.result.status is Status.PASSED and self.programs is not None

    def begin(self, arguments: Sequence[jax.Array], order: random.Random) -> Measurement:
        """Returns the measurement of a repetition.

        Args:
            arguments: The inputs on the device.
            order: Decides the order within a round.
        """
        assert self.programs is not None
        if self.case.platform != "cpu":
            assert self.moved is not None
            cache = self.case.cache or "cold"
            return CudaMeasurement(self.programs.single, arguments, self.case.device, cache, sum(self.moved))
        if self.programs.chained is None:
            return SingleCalls(self.programs, arguments)
        measurement = TwoPoints(self.programs, arguments, self._loops, order)
        self._loops = measurement.loops
        return measurement

    def end(self, measurement: Measurement, fill: Callable[[Inputs], list[jax.Array]] | None) -> None:
        """Keeps the times of a repetition.

        Args:
            measurement: The measurement.
            fill: Places inputs at the addresses of the timed ones. In the last repetition, the timed program then runs
                on other inputs, to show that it still computes. None in earlier repetitions.
        """
        try:
            self._keep(measurement)
        except RecordError as error:  # a kernel that stopped working is hard to time, so the check below runs too
            self.end_in_noise(str(error))
        if fill is not None and self._check_after is not None:
            verdict = self._check_after.verdict(lambda inputs: measurement.on_other(fill(inputs)))
            if verdict.status is not Status.PASSED:
                self.note(status=verdict.status, reason=verdict.reason, timing=None)

    def measure_resources(self, arguments: Sequence[jax.Array]) -> None:
        """Measures the memory of a call, whose inputs lie on the device."""
        assert self.programs is not None
        if self.case.backend.library is not None:
            return  # neither XLA nor its allocator knows the memory of a library
        self.note(resources=resources(self.programs.single, arguments))

    def fail(self, error: Exception, of_kernel: Status = Status.RUNTIME_ERROR) -> None:
        """Records an exception; the cell has no time then."""
        self.note(status=status_of(error, of_kernel), reason=error_text(error), timing=None)

    def end_in_noise(self, reason: str) -> None:
        """Records why this process has no time of the cell. The cell is not wrong, and other processes may time it."""
        self.note(timing=None, reason=reason)

    def without_time(self, reason: str) -> None:
        """Records why the time of a cell that passed its checks cannot be true, or is unknown."""
        self.note(status=Status.UNCHECKED, reason=reason, timing=None)

    def free(self) -> None:
        """Frees the programs after the last repetition."""
        self.programs = self._check_after = None

    def note(self, **fields: Any) -> None:
        """Sets fields of the result."""
        current = {name: getattr(self.result, name) for name in self.result.__struct_fields__}
        self.result = CellResult(**(current | fields))

    def _keep(self, measurement: Measurement) -> None:
        times = measurement.times()
        # If this repetition raised the loop count, drop earlier repetitions: they were too short to trust.
        self._repetitions = [*(each for each in self._repetitions if each.loops == times.loops), times]
        timing = Timing(
            method=measurement.method,
            cache=measurement.cache,
            processes=[_join(self._repetitions)],
            stop="planned rounds",
        )
        self.note(timing=timing, reason=None)

    def _compile(self, inputs: Inputs, checks: bool) -> None:
        case = self.case
        if case.backend.library is not None:
            return self._prepare_library(inputs, checks)
        if checks:
            try:
                self.note(stages=stages(case.operator, case.backend, inputs))
            except FirstCallError as failed:
                return self.fail(failed.error)
            except Exception as error:
                return self.fail(error, Status.COMPILE_ERROR)
            verdict = judge_kernel(case.operator, case.backend, inputs, case.device)
            self.note(status=verdict.status, reason=verdict.reason, accuracy=verdict.accuracy)
            if verdict.status is not Status.PASSED:
                return None
            # XLA's own code need not be checked again, and the truth of the largest inputs would take seconds.
            if case.backend.compiled and case.size <= REPEATED_ABOVE:
                self._check_after = CheckAfterTiming(case, inputs)
        call = case.operator.build(case.backend, inputs)
        programs = Programs.of(call, case.operator.outputs(*inputs), inputs)
        # On a GPU the device takes the times, so it needs no loop.
        self.programs = programs if case.platform == "cpu" else replace(programs, chained=None)
        # On the device of the timed inputs: JAX compiles again for inputs that are not bound to a device.
        self.programs.compile([jax.device_put(array, case.device) for array in inputs])
        return None

    def _prepare_library(self, inputs: Inputs, checks: bool) -> None:
        if checks:
            verdict = judge_library(self.case, inputs)
            self.note(status=verdict.status, reason=verdict.reason, accuracy=verdict.accuracy)
            if verdict.status is not Status.PASSED:
                return
        self.programs = library_programs(self.case, inputs)
        self.programs.compile([jax.device_put(array, self.case.device) for array in inputs])


def _join(repetitions: Sequence[ProcessTimes]) -> ProcessTimes:
    """Returns the samples of all repetitions of a process as one."""

    def all_of(name: str) -> tuple[float, ...]:
        return tuple(sample for repetition in repetitions for sample in getattr(repetition, name))

    lists = ("samples_ns", "program_ns", "kernels_ns")
    clocks = [repetition.clock_mhz for repetition in repetitions if repetition.clock_mhz is not None]
    return ProcessTimes(
        **{name: all_of(name) for name in lists},  # type: ignore[arg-type]
        loops=repetitions[0].loops,
        discarded=sum(repetition.discarded for repetition in repetitions),
        clock_mhz=sum(clocks) / len(clocks) if clocks else None,
    )
