"""Decides which of several runs a page shows in full, and which of them only for what has changed since."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from reports.judgement import judge
from reports.pages.call_costs import is_dispatch
from reports.pages.endurance_table import is_endurance
from reports.pages.first_places import Contest, contests
from reports.pages.rows import CellRow, cell_rows, without_peers
from reports.pages.run_notes import device_name
from reports.pages.verdicts import is_validation
from reports.records.broken_kernels import are_mutants
from reports.records.header import Run
from reports.records.record import Record
from reports.records.run_file import RunFile


class RunKind(StrEnum):
    """What a run did: it timed kernels, checked them, checked broken ones, measured what a call costs, or endured."""

    TIMES = "times"
    CHECKS = "checks"
    MUTANTS = "mutants"
    CALLS = "calls"
    ENDURANCE = "endurance"


KINDS = {
    RunKind.TIMES: "timed", RunKind.CHECKS: "checked", RunKind.MUTANTS: "broken kernel",
    RunKind.CALLS: "cost of a call", RunKind.ENDURANCE: "endured",
}  # fmt: skip
"""The words for the cells of each kind of run."""


@dataclass(frozen=True, eq=False)
class ChosenRun:
    """One run of a page.

    Attributes:
        file: The run as read.
        kind: What it did.
        rows: Its cells, those that the options select.
        device: Platform and name of the device, such as `cuda: NVIDIA H200`; with the id of the run, if another run of
            its kind is from a device of the same name.
        before: The run of the same kind, machine and device before it; None without one.
        before_records: The selected records of that run.
    """

    file: RunFile
    kind: RunKind
    rows: tuple[CellRow, ...] = field(repr=False)
    device: str
    before: RunFile | None = None
    before_records: tuple[Record, ...] = field(default=(), repr=False)

    @property
    def run(self) -> Run:
        """The header of the run."""
        return self.rows[0].run

    @property
    def records(self) -> list[Record]:
        """The records of its cells; the last of a cell counts."""
        return [row.record for row in self.rows]

    @functools.cached_property
    def own_rows(self) -> list[CellRow]:
        """Its cells, without the cells of other libraries."""
        return without_peers(self.rows)

    @functools.cached_property
    def contests(self) -> list[Contest]:
        """The contests of its cells that have a winner."""
        return list(contests(self.rows).values())


@dataclass(frozen=True, slots=True)
class RunChoice:
    """The runs of a page.

    Attributes:
        shown: The newest run of each kind, machine and device: times first, then checks, broken kernels and calls.
        older: The ids of the other runs.
        doubts: What is damaged or missing in the runs that are shown, a sentence each.
        files: All runs, those for the history included, with the records that the options select.
    """

    shown: tuple[ChosenRun, ...]
    older: tuple[str, ...]
    doubts: tuple[str, ...]
    files: tuple[RunFile, ...] = ()

    def of_kind(self, kind: RunKind) -> list[ChosenRun]:
        """Returns the shown runs of a kind."""
        return [one for one in self.shown if one.kind is kind]


def choose(runs: Sequence[tuple[RunFile, Sequence[Record]]]) -> RunChoice:
    """Returns which runs a page shows.

    Args:
        runs: The runs as read, each with the records that the options select, at least one.
    """
    ordered = sorted(_by_platform(runs), key=lambda one: (one[1][0].run.started, one[1][0].run.run_id))
    places: dict[tuple[str, ...], list[tuple[RunFile, Sequence[Record]]]] = {}
    for run, records in ordered:
        header = records[0].run
        places.setdefault((kind_of(records), *machine_key(header)), []).append((run, records))
    shown = []
    for own in places.values():
        run, records = own[-1]
        before, earlier = own[-2] if len(own) > 1 else (None, ())
        shown.append(
            ChosenRun(
                run, kind_of(records), tuple(cell_rows(records)), device_text(records[0].run), before, tuple(earlier)
            )
        )
    alike = Counter((one.kind, one.device) for one in shown)
    shown = [
        replace(one, device=f"{one.device} ({one.run.run_id})") if alike[one.kind, one.device] > 1 else one
        for one in shown
    ]
    order = list(RunKind)
    shown.sort(key=lambda one: (order.index(one.kind), one.device, one.run.run_id))
    names = {one.run.run_id for one in shown}
    older = tuple(dict.fromkeys(run_id for _, records in ordered if (run_id := records[0].run.run_id) not in names))
    files = tuple(replace(run, records=list(records)) for run, records in ordered)
    return RunChoice(tuple(shown), older, tuple(_doubts(shown)), files)


def kind_of(records: Sequence[Record]) -> RunKind:
    """Returns what the run of these records did."""
    if is_dispatch(records):
        return RunKind.CALLS
    if is_endurance(records):
        return RunKind.ENDURANCE
    if not is_validation(records):
        return RunKind.TIMES
    return RunKind.MUTANTS if are_mutants(records) else RunKind.CHECKS


def machine_key(run: Run) -> tuple[str, ...]:
    """Returns what is equal in two runs of one machine and device, as far as they recorded it."""
    identity = run.device.uuid or run.host.machine or ""
    return run.device.platform, run.device.kind, run.host.cpu, identity


def device_text(run: Run) -> str:
    """Returns platform and name of the device of a run."""
    return f"{run.device.platform}: {device_name(run)}"


def _by_platform(runs: Iterable[tuple[RunFile, Sequence[Record]]]) -> list[tuple[RunFile, Sequence[Record]]]:
    """The parts of each run: a session can have cells of several platforms."""
    parts: list[tuple[RunFile, Sequence[Record]]] = []
    for run, records in runs:
        for platform in dict.fromkeys(record.cell.platform for record in records):
            parts.append((run, [record for record in records if record.cell.platform == platform]))
    return parts


def _doubts(shown: Iterable[ChosenRun]) -> list[str]:
    said = []
    for one in shown:
        said += [f"{one.run.run_id}: {line}" for line in judge(one.file, one.records).lines]
    return said
