"""Holds the times of one cell over the runs of one machine, and the changes among them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from reports.records.cell import Cell
from reports.records.header import Run
from reports.records.quantiles import quantile
from reports.statistics.intervals import Ratio

Quantity = Literal["ratio", "time"]


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """The time of a cell in one run.

    Attributes:
        run: The header of the run: its id, commit, versions and flags.
        median_ns: The time of a call: the median over the processes.
        low_ns: The least median of a process; with a single process, the 20th percentile of its samples.
        high_ns: The greatest median of a process, or the 80th percentile.
        processes: How many processes measured it.
        ratio: The time divided by the time of the baseline in the same run, with its 95 % interval; None for the
            baseline itself, and where no ratio exists.
        reference: The backend that the ratio refers to.
    """

    run: Run
    median_ns: float
    low_ns: float
    high_ns: float
    processes: int
    ratio: Ratio | None
    reference: str | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    @property
    def started(self) -> str:
        """When the run started: ISO 8601, UTC."""
        return self.run.started

    @property
    def commit(self) -> str | None:
        """The git commit of the repository that holds the operators."""
        return self.run.source.commit

    @property
    def is_dirty(self) -> bool | None:
        """Whether its tree had changes."""
        return self.run.source.dirty


@dataclass(frozen=True, slots=True)
class Factor:
    """By how much something changed.

    Attributes:
        value: The level after the change divided by the level before: above 1 is slower.
        low: Lower end of the 95 % interval; None with too few runs.
        high: Upper end.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A place in a series at which its level changed.

    The place is the likeliest one: with few or noisy runs, the change may lie some runs away.

    Attributes:
        index: The number of the first point after the change, from 0.
        before: The last point before it.
        after: The first point after it.
        size: By how much the quantity of the series changed.
        time: By how much the time of the cell itself changed there. If the ratio to the baseline changed and the time
            did not, then the baseline did.
    """

    index: int
    before: Point
    after: Point
    size: Factor
    time: Factor

    @property
    def is_slower(self) -> bool:
        """Whether the cell takes longer after the change."""
        return self.size.value > 1

    @property
    def versions(self) -> dict[str, tuple[str | None, str | None]]:
        """The library versions that differ between the runs before and after, by name."""
        before, after = self.before.run.versions, self.after.run.versions
        names = sorted({*before, *after})
        return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


@dataclass(frozen=True, slots=True)
class Level:
    """The points between two changes.

    Attributes:
        first: The number of its first point.
        last: The number of its last point.
        median: The median of the quantity: a ratio, or nanoseconds.
    """

    first: int
    last: int
    median: float


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The times of one cell over runs of one machine, device and settings, oldest first.

    Attributes:
        cell: The cell.
        method: How time was taken.
        cache: The state of the caches.
        points: The times, one for each run, by the start of the run.
        quantity: What changes are searched in: the ratio to the baseline, in which the state of the machine cancels; or
            the time, for the baseline itself and where most runs have no ratio.
        changes: The changes, oldest first.
        machine: The number of the machine among all series, from 0: machine, device and settings are alike.
    """

    cell: Cell
    method: str
    cache: str
    points: tuple[Point, ...]
    quantity: Quantity
    changes: tuple[Change, ...]
    machine: int = 0

    @property
    def run(self) -> Run:
        """The header of the newest run."""
        return self.points[-1].run

    @property
    def values(self) -> list[float | None]:
        """The quantity at each point; None where the point has no ratio."""
        return [value_of(point, self.quantity) for point in self.points]

    @property
    def levels(self) -> list[Level]:
        """The levels between the changes, oldest first."""
        edges = [0, *(change.index for change in self.changes), len(self.points)]
        found = []
        for first, end in pairwise(edges):
            known = [value for value in self.values[first:end] if value is not None]
            if known:
                found.append(Level(first, end - 1, quantile(known, 0.5)))
        return found


def value_of(point: Point, quantity: Quantity) -> float | None:
    """Returns the ratio, or the time in nanoseconds, of a point."""
    if quantity == "time":
        return point.median_ns
    return point.ratio.value if point.ratio else None
