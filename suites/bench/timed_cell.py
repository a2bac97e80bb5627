"""Prepares a cell in this process: checks it, compiles its programs, and keeps the times of its turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from reports import CellResult, ProcessTimes, RecordError, Resources, Status, Timing
from suites.bench import gpu_resources
from suites.bench.compiled_lines import compiled_lines
from suites.bench.cuda_measurement import CudaMeasurement
from suites.bench.first_call import FirstCallError, stages
from suites.bench.library_cells import judge_library, library_programs
from suites.bench.measurement import Measurement
from suites.bench.peak_memory import host_peak
from suites.bench.single_calls import BesideSingleCalls, SingleCalls
from suites.bench.still_right import StillRight
from suites.bench.timed_programs import Programs
from suites.bench.two_points import TwoPoints
from suites.cells.case import SEED, Case, input_types
from suites.cells.repeated_inputs import REPEATED_ABOVE
from suites.checks.judging.blame import status_of
from suites.checks.judging.cell_verdict import judge_kernel, with_reference
from suites.checks.judging.reasons import described
from suites.declare.gathers import ScatteredReads
from suites.numerics.arrays import Inputs


class TimedCell:
    """A cell in one process.

    Attributes:
        case: The cell.
        result: Everything that is known of it; its status is PASSED as long as nothing went wrong.
        moved: Bytes that a call must read, and write; None before :meth:`prepare`.
        gathers: Its scattered reads; None if it declares none.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.result = CellResult(cell=case.cell, shapes=[], dtypes=[], seed=SEED, status=Status.PASSED)
        self._programs: Programs | None = None
        self._still_right: StillRight | None = None
        self._loops: int | None = None
        self.moved: tuple[int, int] | None = None
        self.gathers: ScatteredReads | None = None
        self._turns: list[ProcessTimes] = []

    def prepare(self, *, judged: bool) -> None:
        """Compiles the programs of the cell.

        Args:
            judged: Whether this process also times the compiler, and checks the results. One process of a session does.
        """
        case = self.case
        try:
            inputs = case.inputs()
            shapes, dtypes = input_types(inputs)
            read, written = case.operator.bytes_read(*inputs), case.operator.bytes_written(*inputs)
            self.note(shapes=shapes, dtypes=dtypes, flops=case.operator.flops(*inputs), bytes=read + written)
            self.note(remarks=case.operator.remarks or None)
            if case.operator.gathers is not None:
                self.gathers = case.operator.gathers.of(*inputs)
            self.moved = read, written
            self._compile(inputs, judged)
        except Exception as error:
            self.fail(error)

    @property
    def is_alive(self) -> bool:
        """Whether the cell can be timed."""
        return self.result.status is Status.PASSED and self._programs is not None

    def begin(self, arguments: Sequence[jax.Array], order: random.Random) -> Measurement:
        """Returns the measurement of a turn.

        Args:
            arguments: The inputs on the device.
            order: Decides the order within a round.
        """
        assert self._programs is not None
        if self.case.platform != "cpu":
            assert self.moved is not None
            cache = self.case.cache or "cold"
            device = CudaMeasurement(self._programs.single, arguments, self.case.device, cache, sum(self.moved))
            return BesideSingleCalls(device, SingleCalls(self._programs, arguments))
        if self._programs.chained is None:
            return SingleCalls(self._programs, arguments)
        measurement = TwoPoints(self._programs, arguments, self._loops, order)
        self._loops = measurement.loops
        return measurement

    def end(self, measurement: Measurement, fill: Callable[[Inputs], list[jax.Array]] | None) -> None:
        """Keeps the times of a turn.

        Args:
            measurement: The measurement.
            fill: In the last turn, places inputs at the addresses of the timed ones: then the timed program runs on
                other inputs, which shows whether it still computes. None before.
        """
        try:
            self._keep(measurement)
        except RecordError as error:  # a kernel that stopped working is hard to time, so it is checked all the same
            self.hidden_by_noise(str(error))
        if fill is not None and self._still_right is not None:
            verdict = self._still_right.verdict(lambda inputs: measurement.on_other(fill(inputs)))
            if verdict.status is not Status.PASSED:
                self.note(status=verdict.status, reason=verdict.reason, timing=None)

    def measure_resources(self, arguments: Sequence[jax.Array], *, energy: bool) -> None:
        """Measures memory and energy of a call.

        Args:
            arguments: The inputs on the device.
            energy: Whether to measure energy, which takes about half a second.
        """
        assert self._programs is not None
        if self.case.backend.library is not None:
            return  # neither XLA nor its allocator knows what a library takes
        if self.case.platform == "cpu":
            found = Resources(host_bytes=host_peak(self._programs.single, arguments))
        else:
            timing = self.result.timing  # of the turns before
            found = gpu_resources.resources(
                self._programs.single,
                arguments,
                burst_s=gpu_resources.BURST_S if energy else 0.0,
                work_s=None if timing is None else 1e-9 * timing.median_ns,
            )
        self.note(resources=found)

    def fail(self, error: Exception, of_kernel: Status = Status.RUNTIME_ERROR) -> None:
        """Notes an exception: the cell has no time then."""
        self.note(status=status_of(error, of_kernel), reason=described(error), timing=None)

    def hidden_by_noise(self, reason: str) -> None:
        """Notes why this process has no time of the cell; nothing is wrong with it, and others may have one."""
        self.note(timing=None, reason=reason)

    def without_time(self, reason: str) -> None:
        """Notes why the time of a right cell cannot be true, or is unknown."""
        self.note(status=Status.UNCHECKED, reason=reason, timing=None)

    def free(self) -> None:
        """Frees the programs: the cell has had its last turn."""
        self._programs = self._still_right = None

    def note(self, **fields: Any) -> None:
        """Adds fields of :class:`reports.CellResult`."""
        known = {name: getattr(self.result, name) for name in self.result.__struct_fields__}
        self.result = CellResult(**(known | fields))

    def _keep(self, measurement: Measurement) -> None:
        times = measurement.times()
        # A turn that found that more calls are needed says that the turns before it had too few.
        self._turns = [*(turn for turn in self._turns if turn.loops == times.loops), times]
        timing = Timing(
            method=measurement.method,
            cache=measurement.cache,
            processes=[_joined(self._turns)],
            stop="planned rounds",
        )
        self.note(timing=timing, reason=None)

    def _compile(self, inputs: Inputs, judged: bool) -> None:
        case = self.case
        if case.backend.library is not None:
            return self._prepare_library(inputs, judged)
        if judged:
            try:
                measured, program = stages(case.operator, case.backend, inputs)
                self.note(stages=measured, hlo=compiled_lines(program.as_text() or ""))
            except FirstCallError as failed:
                return self.fail(failed.error)
            except Exception as error:
                return self.fail(error, Status.COMPILE_ERROR)
            verdict = judge_kernel(case.operator, case.backend, inputs, case.device)
            if case.size <= REPEATED_ABOVE:  # the reference's error would take seconds here; smaller cells show it
                verdict = with_reference(verdict, case.operator, inputs)
            self.note(status=verdict.status, reason=verdict.reason, accuracy=verdict.accuracy)
            if verdict.status is not Status.PASSED:
                return None
            # XLA's own code is no suspect; and truth for the largest inputs would take seconds.
            if case.backend.compiled and case.size <= REPEATED_ABOVE:
                self._still_right = StillRight(case, inputs)
        call = case.operator.build(case.backend, inputs)
        programs = Programs.of(call, case.operator.outputs(*inputs), inputs)
        # A GPU takes its own times, and its allocator keeps memory.
        self._programs = programs if case.platform == "cpu" else replace(programs, warm=None, chained=None)
        # Where the timed inputs will lie: JAX compiles again for inputs that are not bound to a device.
        self._programs.compile([jax.device_put(array, case.device) for array in inputs])
        return None

    def _prepare_library(self, inputs: Inputs, judged: bool) -> None:
        if judged:
            verdict = judge_library(self.case, inputs)
            if self.case.size <= REPEATED_ABOVE:
                verdict = with_reference(verdict, self.case.operator, inputs)
            self.note(status=verdict.status, reason=verdict.reason, accuracy=verdict.accuracy)
            if verdict.status is not Status.PASSED:
                return
        self._programs = library_programs(self.case, inputs)
        self._programs.compile([jax.device_put(array, self.case.device) for array in inputs])


def _joined(turns: Sequence[ProcessTimes]) -> ProcessTimes:
    """Returns the samples of all turns of a process as one."""

    def all_of(name: str) -> list[float]:
        return [sample for turn in turns for sample in getattr(turn, name)]

    lists = ("samples_ns", "program_ns", "kernels_ns", "alone_ns", "alone_warm_ns")
    clocks = [turn.clock_mhz for turn in turns if turn.clock_mhz is not None]
    return ProcessTimes(
        **{name: all_of(name) for name in lists},
        loops=turns[0].loops,
        discarded=sum(turn.discarded for turn in turns),
        clock_mhz=sum(clocks) / len(clocks) if clocks else None,
    )
