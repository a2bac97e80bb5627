"""Takes the newest result of every cell from several runs, for each kind of run and each device."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from reports.errors import RunUnreadable
from reports.judgement import judge
from reports.pages.rows import CellRow, cell_rows
from reports.pages.run_notes import platform_name
from reports.pages.verdicts import is_validation
from reports.records.cell import CellKey
from reports.records.header import Run
from reports.records.record import Record
from reports.records.run_file import RunFile
from reports.records.status import Status


class RunKind(StrEnum):
    """The work of a run: it timed kernels, or checked them."""

    TIMES = "times"
    CHECKS = "checks"


@dataclass(frozen=True, eq=False)
class Results:
    """The newest result of every cell of one kind on one device.

    Attributes:
        kind: The work of the runs.
        device: Platform and name of the device, such as `cuda: NVIDIA H200`; machines with the same device are
            shown together.
        rows: The newest result of each cell; a cell that failed stays failed until that very cell passes again.
        earlier: The result before it, of the cells that have one.
        removed: The last results of cells that a later run of the same selection does not have; those that failed stay
            in `rows`, for nothing has shown them right.
        added: The keys of the cells that an earlier run of the same selection did not have.
        history: All results of all runs, the oldest first.
    """

    kind: RunKind
    device: str
    rows: tuple[CellRow, ...] = field(repr=False)
    earlier: tuple[Record, ...] = field(repr=False)
    removed: tuple[Record, ...] = field(repr=False)
    added: frozenset[CellKey] = field(repr=False)
    history: tuple[CellRow, ...] = field(repr=False)

    @functools.cached_property
    def run(self) -> Run:
        """The header of the newest run."""
        return max((row.run for row in self.rows), key=lambda run: (run.started, run.run_id))

    @property
    def records(self) -> list[Record]:
        """The records of the newest results."""
        return [row.record for row in self.rows]

    @functools.cached_property
    def runs(self) -> list[Run]:
        """The headers of the runs that some newest result is from, the oldest first."""
        return sorted({row.run.run_id: row.run for row in self.rows}.values(), key=lambda run: run.started)

    def age(self, row: CellRow) -> str:
        """Returns how much older a result is than the newest run, such as `3 days older`; nothing on the same day."""
        newest, own = (datetime.fromisoformat(run.started) for run in (self.run, row.run))
        days = (newest - own).days
        return f"{days} day{'' if days == 1 else 's'} older" if days else ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The results that a page shows.

    Attributes:
        shown: The results: times first, then checks.
        doubts: Damaged and missing parts of the runs, a sentence each.
    """

    shown: tuple[Results, ...]
    doubts: tuple[str, ...]

    def of_kind(self, kind: RunKind) -> list[Results]:
        """Returns the results of a kind."""
        return [one for one in self.shown if one.kind is kind]


def choose(runs: Sequence[tuple[RunFile, Sequence[Record]]]) -> Choice:
    """Returns the results that a page of some runs shows.

    Args:
        runs: The runs as read, each with the records that the options select, at least one.

    Raises:
        RunUnreadable: None of them timed or checked kernels.
    """
    by_kind: dict[tuple[RunKind, str], list[CellRow]] = {}
    announced: dict[str, set[CellKey]] = {}
    ordered = sorted(runs, key=lambda one: (one[1][0].run.started, one[1][0].run.run_id))
    for run, records in ordered:
        kind = kind_of(records)
        if not run.deselected and run.run_id is not None:
            announced[run.run_id] = {cell.versionless_key for cell in run.expected.values()}
        if kind is not None:
            for row in cell_rows(records):
                by_kind.setdefault((kind, platform_name(row.run)), []).append(row)
    if not by_kind:
        raise RunUnreadable("none of these runs has times or checks of kernels. kernel-bridge show prints them.")
    shown = [_newest(kind, rows, announced) for (kind, _), rows in by_kind.items()]
    shown.sort(key=lambda one: (list(RunKind).index(one.kind), one.device))
    return Choice(tuple(shown), tuple(_doubts(ordered)))


def kind_of(records: Sequence[Record]) -> RunKind | None:
    """Returns the kind of a run; None for runs of instruments that are gone."""
    if records[0].run.profile in ("dispatch", "endure"):
        return None
    return RunKind.CHECKS if is_validation(records) else RunKind.TIMES


def _newest(kind: RunKind, rows: Sequence[CellRow], announced: Mapping[str, set[CellKey]]) -> Results:
    """Returns the newest result of each cell, of rows in the order of their runs."""
    newest: dict[CellKey, CellRow] = {}
    earlier: dict[CellKey, Record] = {}
    for row in rows:
        key = row.cell.versionless_key
        before = newest.get(key)
        if before is None:
            newest[key] = row
        elif row.status is Status.PASSED or row.status.failed or not before.status.failed:
            earlier[key], newest[key] = before.record, row
    first: dict[str, str] = {}
    last: dict[str, set[CellKey]] = {}
    for run in (row.run for row in rows if row.run.run_id in announced):
        first.setdefault(_selected(run), run.started)
        last[_selected(run)] = announced[run.run_id]
    removed, added = set(), set()
    for key, row in newest.items():
        own = _selected(row.run)
        if not row.status.failed and key not in last.get(own, {key}):
            removed.add(key)
        elif key not in earlier and first.get(own, row.run.started) < row.run.started:
            added.add(key)
    return Results(
        kind, platform_name(rows[-1].run), tuple(row for key, row in newest.items() if key not in removed),
        tuple(earlier.values()), tuple(newest[key].record for key in newest if key in removed), frozenset(added),
        tuple(rows),
    )  # fmt: skip


def _selected(run: Run) -> str:
    """Returns what a run selected; runs that did not record it are alone."""
    return repr((run.profile, run.selection, run.part) if run.selection is not None else run.run_id)


def _doubts(runs: Iterable[tuple[RunFile, Sequence[Record]]]) -> list[str]:
    """Returns the damaged and missing parts of the runs. A cell that another run has is not missing."""
    pairs = list(runs)
    recorded = {record.cell.key for _, records in pairs for record in records}
    doubts = []
    for run, records in pairs:
        missing = [cell for cell in run.missing if cell.key not in recorded]
        for line in judge(run, records, selects=lambda cell: cell.key not in recorded).lines:
            if not line.startswith("INCOMPLETE") or missing or not run.missing:
                doubts.append(f"{run.run_id}: {line}")
    return doubts
