"""Times cells on the orders of a command: ``python -m suites.bench.worker SELECTION``, a selection as JSON.

The command starts several such processes (:mod:`suites.bench.process_pool`). This process says which cells it has, and
compiles and times them when the command orders it. It writes no record.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from reports import Cell, CellResult, Status
from reports.records.cell import CellKey
from suites.bench import messages
from suites.bench.timed_process import TimedProcess
from suites.cells.case import SEED, Case
from suites.cells.grid import why_skipped
from suites.cells.runnable import require_runnable
from suites.cells.selection import Selection
from suites.errors import CatalogueError, SelectionError
from suites.processes.preflight import require_sound
from suites.timing import run_header
from suites.timing.timed_selection import timed_cells


def main(arguments: Sequence[str]) -> int:
    """Obeys the command that started this process until its last order; returns the exit code."""
    conductor = messages.Conductor()
    try:
        selection = msgspec.json.decode(arguments[0], type=Selection)
        cases = _open(selection, conductor)
    except (SelectionError, RuntimeError) as error:
        conductor.send(messages.Refused(str(error)))
        return 3
    _serve(conductor, cases)
    return 0


def _open(selection: Selection, conductor: messages.Conductor) -> dict[CellKey, Case]:
    """Loads the operators, and sends the list of their cells; returns the cells that can be timed."""
    cases, refusal = [], None
    try:
        require_sound(selection)
        cases = timed_cells(selection)
        whole = replace(selection, part=None)  # a part may have no cell of an operator, or none at all
        require_runnable(selection, timed_cells(whole) if selection.part else cases)
    except CatalogueError:
        raise
    except SelectionError as error:
        cases, refusal = [], str(error)
    reasons = {case.cell.key: reason for case in cases if (reason := why_skipped(case))}
    skipped = [
        CellResult(
            cell=case.cell, shapes=[], dtypes=[], seed=SEED, status=Status.SKIPPED, reason=reasons[case.cell.key]
        )
        for case in cases
        if case.cell.key in reasons
    ]
    runnable = {case.cell.key: case for case in cases if case.cell.key not in reasons}
    header = run_header.header(selection, selection.profile)
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = [file for file in loaded if isinstance(file, str)]
    conductor.send(
        messages.Opened(messages.PROTOCOL, header, [case.cell for case in runnable.values()], skipped, refusal, files)
    )
    return runnable


def _serve(conductor: messages.Conductor, cases: dict[CellKey, Case]) -> None:
    order: list[CellKey] = []

    def on_cell(cell: Cell) -> None:
        if order:
            conductor.running.set(order.index(cell.key))
        else:
            conductor.send(messages.Started(cell))

    process = TimedProcess(cases, on_cell)
    for each in conductor.orders():
        if isinstance(each, messages.Prepare):
            order = []
            to_check = {cell.key for cell in each.to_check}
            for cell in each.cells:
                conductor.send(messages.Prepared(process.prepare(cell.key, checks=cell.key in to_check)))
            process.freeze_garbage()
            conductor.send(messages.Ready())
        else:
            order = [cell.key for cell in each.cells]
            conductor.send(messages.Timed(process.time(order, each.seconds, last=each.last, measures=each.measures)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
