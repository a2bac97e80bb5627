"""Makes a series of each cell over recorded runs, and finds its changes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reports.history.series import Change, Factor, Point, Quantity, Series, value_of
from reports.pages.alike import header_differences
from reports.pages.rows import BASELINE, CellRow, cell_rows
from reports.records.cell import Cell
from reports.records.header import Run
from reports.records.run_file import RunFile
from reports.statistics.change_points import Shift, changes, shift_at
from reports.statistics.ranks import Numbers
from reports.statistics.verdict_codes import SMALLEST

_Key = tuple[object, ...]


def histories(runs: Sequence[RunFile], selects: Callable[[Cell], bool] = lambda _: True) -> list[Series]:
    """Returns one series for each cell and backend of each machine, in the order in which they were first recorded.

    Runs of one series have the same machine, device, threads and flags, see `reports.pages.alike`. Their cells have the
    same version, method of timing, state of caches, shapes, dtypes and seed. A cell without a time, or whose time the
    program around the calls decides, is no point. A run that is given twice counts once.

    Args:
        runs: The runs, in any order.
        selects: Tells whether a cell counts.
    """
    groups: list[_Machine] = []
    found: dict[_Key, list[tuple[CellRow, Point]]] = {}
    for run in sorted(_distinct(runs), key=lambda one: (one.records[0].run.started, one.run_id or "")):
        for row in cell_rows(run.records):
            if row.timing and row.timing.is_steady and selects(row.cell):
                key = _machine(groups, row.run), *_identity(row)
                found.setdefault(key, []).append((row, _point(row)))
    series = [_series(own, key[0]) for key, own in found.items()]
    return _with_changes(series)


@dataclass
class _Machine:
    """Runs that are alike: the newest header, and those that were found to fit, by identity."""

    newest: Run
    known: dict[int, Run]


def _machine(groups: list[_Machine], run: Run) -> int:
    """Returns the number of the group that a header fits; makes one if none does."""
    for number, group in enumerate(groups):
        if group.known.get(id(run)) is run:
            return number
    # The newest group first: after a change of settings, runs continue with the new ones.
    for number, group in reversed(list(enumerate(groups))):
        if not header_differences(group.newest, run):
            group.newest = run
            group.known[id(run)] = run
            return number
    groups.append(_Machine(run, {id(run): run}))
    return len(groups) - 1


def _distinct(runs: Sequence[RunFile]) -> list[RunFile]:
    return list({run.records[0].run.run_id: run for run in runs if run.records}.values())


def _identity(row: CellRow) -> _Key:
    record = row.record
    assert row.timing is not None
    return (*row.cell.key, row.timing.method, row.timing.cache, str(record.shapes), str(record.dtypes), record.seed)


def _point(row: CellRow) -> Point:
    timing = row.timing
    assert timing is not None
    reference = row.record.dispatch.reference if row.record.dispatch else BASELINE
    ratio = None if row.cell.backend == reference else row.compared
    return Point(row.run, timing.median_ns, timing.low_ns, timing.high_ns, len(timing.processes), ratio, reference)


def _series(own: Sequence[tuple[CellRow, Point]], machine: object) -> Series:
    row = own[-1][0]
    assert row.timing is not None
    assert isinstance(machine, int)
    points = tuple(point for _, point in own)
    has_ratios = 2 * sum(point.ratio is not None for point in points) > len(points)
    quantity: Quantity = "ratio" if has_ratios else "time"
    return Series(row.cell, row.timing.method, row.timing.cache, points, quantity, (), machine)


def _with_changes(series: Sequence[Series]) -> list[Series]:
    """Returns the series with their changes. All are judged together: their number counts."""
    places = [[i for i, value in enumerate(one.values) if value is not None] for one in series]
    numbers = [_logarithms(one, own, one.quantity) for one, own in zip(series, places, strict=True)]
    smallest = [math.log1p(SMALLEST[one.cell.platform]) for one in series]
    found = changes(numbers, smallest)
    return [
        replace(one, changes=tuple(_changes(one, own, shifts)))
        for one, own, shifts in zip(series, places, found, strict=True)
    ]


def _changes(series: Series, places: Sequence[int], shifts: Sequence[Shift]) -> list[Change]:
    times = _logarithms(series, places, "time")
    edges = [0, *(shift.place for shift in shifts), len(places)]
    found = []
    for start, shift, end in zip(edges, shifts, edges[2:], strict=False):
        index = places[shift.place]
        time = _factor(*shift_at(times[start : shift.place], times[shift.place : end]))
        size = _factor(shift.size, shift.low, shift.high)
        found.append(Change(index, series.points[places[shift.place - 1]], series.points[index], size, time))
    return found


def _logarithms(series: Series, places: Sequence[int], quantity: Quantity) -> Numbers:
    values = [value_of(series.points[place], quantity) for place in places]
    logarithms: Numbers = np.log(np.array(values, dtype=float))
    return logarithms


def _factor(size: float, low: float, high: float) -> Factor:
    ends = [math.exp(end) if math.isfinite(end) else None for end in (low, high)]
    return Factor(math.exp(size), *ends)
