"""Times contests in this process: all cells of a contest take turns, round by round, in a random order."""

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
"""Rounds of one turn. Several turns, in several processes, take the least number too."""

_AGAIN = 4
"""How often a turn takes as many rounds again where the noise hides the calls."""


class TimedProcess:
    """The cells that this process times.

    Args:
        cases: All cells, by key.
        on_cell: Is told which cell runs, before it does: it may bring the process down.
        seed: Decides the order of the rounds; None for another one each time.
    """

    def __init__(
        self,
        cases: Mapping[CellKey, Case],
        on_cell: Callable[[Cell], None],
        *,
        seed: int | None = None,
    ) -> None:
        self._cases = cases
        self._on_cell = on_cell
        self._order = random.Random(seed)
        self._cells: dict[CellKey, TimedCell] = {}

    def prepare(self, key: CellKey, *, judged: bool) -> CellResult:
        """Compiles a cell, see :meth:`TimedCell.prepare`; returns what is known of it."""
        case = self._cases[key]
        cell = self._cells[key] = TimedCell(case)
        self._on_cell(case.cell)
        with precision(case.dtype), jax.default_device(case.device):
            cell.prepare(judged=judged)
        return cell.result

    def settle(self) -> None:
        """Makes garbage collections short: what there is now, such as compiled programs, is not looked at again."""
        gc.collect()
        gc.freeze()

    def turn(self, keys: Sequence[CellKey], seconds: float, *, last: bool, measures: bool) -> list[CellResult]:
        """Times the cells of a contest; returns what is known of each.

        Args:
            keys: The cells, which were prepared, and have equal inputs.
            seconds: How long the rounds of one cell should take.
            last: Whether this is the last turn of the contest in this process.
            measures: In the last turn: whether to measure memory, and the bandwidth of the device.
        """
        cells = [self._cells[key] for key in keys if self._cells[key].is_alive]
        if cells:
            case = cells[0].case
            with precision(case.dtype), jax.default_device(case.device), _garbage_kept():
                self._turn(cells, seconds, last, measures)
                for cell in cells if last and measures else []:
                    compare_with_limits(cell)
        if last:
            for key in keys:
                self._cells[key].free()
        return [self._cells[key].result for key in keys]

    def _turn(self, cells: Sequence[TimedCell], seconds: float, last: bool, measures: bool) -> None:
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
                _above_noise(measurement, rounds)
        for cell in running if last and measures else []:
            with self._guarded(cell):
                cell.measure_resources(arguments)
        for cell, measurement in running.items():
            with self._guarded(cell):
                cell.end(measurement, memory.fill if last else None)

    @contextmanager
    def _guarded(self, cell: TimedCell) -> Iterator[None]:
        """Notes what goes wrong with a cell; the others go on."""
        self._on_cell(cell.case.cell)
        try:
            yield
        except RecordError as error:
            cell.hidden_by_noise(str(error))
        except Exception as error:
            cell.fail(error)


def _above_noise(measurement: Measurement, rounds: int) -> None:
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
    """All cells of a contest take part in as many rounds as the slowest of them has time for."""
    slowest = max((measurement.round_s for measurement in running), default=0.0)
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(seconds / slowest))) if slowest else 0


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Turns automatic garbage collection off."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
