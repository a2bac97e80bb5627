"""Times groups in this process: each round calls all cells of a group, in a random order."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import jax

from reports import CellResult, RecordError
from reports.records.cell import Cell, CellKey
from suites.cells.case import Case
from suites.checks.judging.memory import RefilledMemory
from suites.numerics.precision import precision
from suites.timing.device_limits import compare_with_limits
from suites.timing.measurement import Measurement
from suites.timing.timed_cell import TimedCell

LEAST_ROUNDS, MOST_ROUNDS = 3, 100
"""Rounds of one repetition. The least number is also right for several repetitions in several processes."""

_AGAIN = 4
"""How often a repetition takes as many rounds again while the noise is larger than the calls."""


class TimedProcess:
    """The cells that this process times.

    Args:
        cases: All cells, by key.
        on_cell: Is called with each cell before it runs, since the cell may crash the process.
    """

    def __init__(self, cases: Mapping[CellKey, Case], on_cell: Callable[[Cell], None]) -> None:
        self._cases = cases
        self._on_cell = on_cell
        self._order = random.Random()
        self._cells: dict[CellKey, TimedCell] = {}

    def prepare(self, key: CellKey, *, checks: bool) -> CellResult:
        """Compiles a cell, see :meth:`TimedCell.prepare`; returns its result so far."""
        case = self._cases[key]
        cell = self._cells[key] = TimedCell(case)
        self._on_cell(case.cell)
        with precision(case.dtype), jax.default_device(case.device):
            cell.prepare(checks=checks)
        return cell.result

    def freeze_garbage(self) -> None:
        """Makes garbage collections short: they skip all objects that exist now, such as compiled programs."""
        gc.collect()
        gc.freeze()

    def time(self, keys: Sequence[CellKey], seconds: float, *, last: bool, measures: bool) -> list[CellResult]:
        """Times the cells of a group once more; returns their results so far.

        Args:
            keys: The cells, which are prepared, and have equal inputs.
            seconds: How long the rounds of one cell should take.
            last: Whether this is the last repetition of the group in this process.
            measures: In the last repetition: whether to measure memory, and the bandwidth of the device.
        """
        cells = [self._cells[key] for key in keys if self._cells[key].is_alive]
        if cells:
            case = cells[0].case
            with precision(case.dtype), jax.default_device(case.device), _no_garbage_collection():
                self._time(cells, seconds, last, measures)
                for cell in cells if last and measures else []:
                    compare_with_limits(cell)
        if last:
            for key in keys:
                self._cells[key].free()
        return [self._cells[key].result for key in keys]

    def _time(self, cells: Sequence[TimedCell], seconds: float, last: bool, measures: bool) -> None:
        case = cells[0].case
        inputs = case.inputs()
        memory = RefilledMemory(inputs, case.device)
        arguments = memory.fill(inputs)
        running: dict[TimedCell, Measurement] = {}
        for cell in cells:
            with self._guarded(cell):
                running[cell] = cell.begin(arguments, self._order)
        rounds = _rounds(running.values(), seconds)
        for _ in range(rounds):
            for cell in self._order.sample(list(running), len(running)):
                with self._guarded(cell):
                    running[cell].round()
                if not cell.is_alive:
                    del running[cell]
        for cell, measurement in running.items():
            with self._guarded(cell):
                _add_rounds_in_noise(measurement, rounds)
        for cell in running if last and measures else []:
            with self._guarded(cell):
                cell.measure_resources(arguments)
        for cell, measurement in running.items():
            with self._guarded(cell):
                cell.end(measurement, memory.fill if last else None)

    @contextmanager
    def _guarded(self, cell: TimedCell) -> Iterator[None]:
        """Records an error as the result of its cell; the other cells go on."""
        self._on_cell(cell.case.cell)
        try:
            yield
        except RecordError as error:
            cell.end_in_noise(str(error))
        except Exception as error:
            cell.fail(error)


def _add_rounds_in_noise(measurement: Measurement, rounds: int) -> None:
    """Takes more rounds while the noise is larger than the calls."""
    for _ in range(_AGAIN):
        try:
            measurement.times()
        except RecordError:
            for _ in range(rounds):
                measurement.round()
        else:
            return


def _rounds(running: Iterable[Measurement], seconds: float) -> int:
    """Returns the rounds of all cells of a group: as many as the slowest cell has time for."""
    slowest = max((measurement.round_s for measurement in running), default=0.0)
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(seconds / slowest))) if slowest else 0


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turns automatic garbage collection off."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
