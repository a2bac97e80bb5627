"""Makes the tables of the dispatch benchmark: times per call, ratios to the reference of each mode, and targets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.pages.phrases import shorten
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.pages.spread import Spread, round_ratios
from reports.records.measurements import DispatchFacts
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, DASH

PROFILE = "dispatch"
"""The profile of a run of the dispatch benchmark."""

_FACTOR = 0.1
"""A target below this is written as a factor: `at least 100x below`."""


class TargetVerdict(StrEnum):
    """The result for a target."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


_STYLES = {
    TargetVerdict.MET: Style.PLAIN,
    TargetVerdict.MISSED: Style.BAD,
    TargetVerdict.NOT_MEASURED: Style.FAINT,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A target: in one mode, the largest ratio of the time of a path to the time of another path.

    Attributes:
        mode: The mode.
        path: The path that should be fast.
        other: The path that it is compared with.
        limit: The largest ratio.
        measured: The ratios of all rounds; None if one of the two paths was not measured.
    """

    mode: str
    path: str
    other: str
    limit: float
    measured: Spread | None

    @property
    def text(self) -> str:
        """The target in words."""
        if self.limit >= _FACTOR:
            return f"{self.mode}: {self.path} <= {self.limit:.2f}x {self.other}"
        return f"{self.mode}: {self.path} at least {1 / self.limit:.0f}x below {self.other}"

    @property
    def verdict(self) -> TargetVerdict:
        """The result, by the median of the ratios."""
        if self.measured is None:
            return TargetVerdict.NOT_MEASURED
        return TargetVerdict.MET if self.measured.median <= self.limit else TargetVerdict.MISSED


def is_dispatch(records: Sequence[Record]) -> bool:
    """Returns whether a run is one of the dispatch benchmark."""
    return bool(records) and all(record.run.profile == PROFILE for record in records)


def call_cost_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, times, ratios, targets, and the paths that were not measured.

    A path is a way to call the kernel: the backend of a cell. Targets are reported; a missed target is not a failure.
    """
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        costs = _Costs.of(rows)
        if costs.modes:
            tables += [_times(rows, costs), _ratios(costs), _targets(costs)]
        missing = [row for row in rows if row.status is not Status.PASSED]
        tables += [_missing(missing)] if missing else []
    return tables


def targets(rows: Sequence[CellRow]) -> list[Target]:
    """Returns the targets of the cells of one run and platform, with the ratios that were measured."""
    costs = _Costs.of(rows)
    return [
        Target(row.cell.mode, row.cell.backend, other, limit, costs.ratio(row.cell.mode, row.cell.backend, other))
        for row in rows
        if row.record.dispatch
        for other, limit in row.record.dispatch.limits.items()
    ]


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cells of one run and platform.

    Attributes:
        rows: The cells.
        modes: The facts of one cell of each mode, by mode, in the order of the columns.
        titles: The title of each path, by path, in the order of the lines.
        samples: The samples in ns, by mode and path.
    """

    rows: Sequence[CellRow]
    modes: dict[str, DispatchFacts]
    titles: dict[str, str]
    samples: dict[tuple[str, str], list[float]]

    @classmethod
    def of(cls, rows: Sequence[CellRow]) -> "_Costs":
        facts = [(row, row.record.dispatch) for row in rows if row.record.dispatch]
        return cls(
            rows=rows,
            modes={row.cell.mode: fact for row, fact in facts},
            titles={row.cell.backend: fact.title for row, fact in facts if row.timing},
            samples={(row.cell.mode, row.cell.backend): row.timing.samples_ns for row in rows if row.timing},
        )

    def time_us(self, mode: str, path: str) -> Spread | None:
        samples = self.samples.get((mode, path))
        return Spread.of([sample / 1000 for sample in samples]) if samples else None

    def ratio(self, mode: str, path: str, other: str) -> Spread | None:
        ours, theirs = self.samples.get((mode, path)), self.samples.get((mode, other))
        return Spread.of(round_ratios(ours, theirs)) if ours and theirs else None

    def lines(self, spread: Callable[[str, str], Spread | None]) -> Iterator[Row]:
        for path, title in self.titles.items():
            yield Row((Text(title), *(text for mode in self.modes for text in _spread_texts(spread(mode, path)))))


def _times(rows: Sequence[CellRow], costs: _Costs) -> Table:
    columns = [Column("path", align="left")]
    for facts in costs.modes.values():
        hint = f"p20{DASH}p80: 20th and 80th percentiles"
        columns += [Column("median", facts.mode_title), Column(f"p20{DASH}p80", facts.mode_title, drop=1, note=hint)]
    some = rows[0]
    stops = dict.fromkeys(row.timing.stop for row in rows if row.timing)
    notes = (
        f"a {some.cell.dtype} {some.cell.operator} of {some.cell.size} elements; {', '.join(stops)}",
        *run_notes(rows),
    )
    title = f"Dispatch cost on {platform_name(rows)}: microseconds per call"
    return Table(title, tuple(columns), tuple(costs.lines(costs.time_us)), notes)


def _ratios(costs: _Costs) -> Table:
    columns = [Column("path", align="left")]
    for mode, facts in costs.modes.items():
        group = f"{mode} / {facts.reference}"
        columns += [Column("median", group), Column(f"p20{DASH}p80", group, drop=1)]
    lines = costs.lines(lambda mode, path: costs.ratio(mode, path, costs.modes[mode].reference))
    return Table("Ratio to the reference of the mode, round by round", tuple(columns), tuple(lines))


def _targets(costs: _Costs) -> Table:
    columns = (Column("target", align="left"), Column("measured"), Column("verdict"))
    lines = [
        Row((Text(target.text), Text(_measured_text(target)), Text(target.verdict, _STYLES[target.verdict])))
        for target in targets(costs.rows)
    ]
    return Table("Targets (reported, not asserted)", columns, tuple(lines))


def _measured_text(target: Target) -> str:
    if target.measured is None:
        return ABSENT
    if target.limit < _FACTOR:
        return f"{1 / target.measured.median:.3g}x below"
    median, spread = _spread_texts(target.measured)
    return f"{median.text} ({spread.text})"


def _missing(rows: Sequence[CellRow]) -> Table:
    columns = tuple(Column(name, align="left") for name in ("path", "status", "reason"))
    # A path that cannot be taken has the same reason in each mode.
    lines = dict.fromkeys(
        Row((Text(row.record.dispatch.title), Text(row.status), Text(shorten(str(row.record.reason)))))
        for row in rows
        if row.record.dispatch
    )
    return Table("Not measured", columns, tuple(lines))


def _spread_texts(spread: Spread | None) -> tuple[Text, Text]:
    if spread is None:
        return Text(ABSENT), Text(ABSENT)
    return Text(_number(spread.median)), Text(f"{_number(spread.p20)}{DASH}{_number(spread.p80)}")


def _number(value: float) -> str:
    """Returns about three significant digits, without an exponent."""
    for least, decimals in ((100, 0), (10, 1), (1, 2), (0.01, 3)):
        if value >= least:
            return f"{value:.{decimals}f}"
    return f"{value:.4f}"
