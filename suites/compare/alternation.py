"""Times two revisions in waves of fresh processes, and records one run for each.

A wave has two processes of each side. All take turns, contest by contest (:mod:`suites.bench.panel`), so a change of
the machine's state reaches both sides alike: process i of base and process i of head are a pair. Waves follow each
other until every cell is decided, or the time is over. ``jnp`` is not timed: it is no part of the question.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from reports import Cell, CellResult, Record, ReportError, Run, RunWriter, Source, judge, load_run, new_run_id, run_path
from reports.pages.alike import INTERLEAVED
from reports.records.cell import CellKey
from reports.records.record import SCHEMA
from reports.records.run_file import RunFile
from suites.bench.command import PROCESSES, SECONDS, TURNS, worker_command
from suites.bench.contests import contests, portions
from suites.bench.merging import Found, merged
from suites.bench.messages import Opened
from suites.bench.panel import Panel, PanelError, WorkerSpec
from suites.cells.selection import Selection
from suites.compare.revisions.side import BASE, HEAD, Side
from suites.compare.revisions.sides import Sides
from suites.errors import RevisionError
from suites.processes import isolation
from suites.timing.run_header import machine_load

_ORDER = (BASE, HEAD, HEAD, BASE)
"""The processes of a wave, as they are started."""

_EACH = _ORDER.count(BASE)

MOST = 32
"""Processes of each side at most: more find nothing that another look would not."""

_PORTION = 100
"""Cells whose programs a process holds at a time; twice as many processes run as in a timing session."""

Undecided = Callable[[Sequence[Record], Sequence[Record]], Sequence[str]]
"""Names the cells of base and head about which nothing is decided yet."""


@dataclass(frozen=True)
class Measured:
    """Two runs whose processes alternated.

    Attributes:
        base: The run of the older side.
        head: The run of the newer side.
        notes: How many processes and which load there were, which cells are undecided, and what could not be written.
        is_recorded: Whether both run files were written.
    """

    base: RunFile
    head: RunFile
    notes: tuple[str, ...]
    is_recorded: bool


def measure(
    sides: Sides,
    selection: Selection,
    *,
    seconds: float,
    undecided: Undecided,
    processes: int | None = None,
    timeout_s: float = 300.0,
    runs: str | Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    panel_factory: Callable[..., Panel] = Panel,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Times both sides until every cell is decided, and records a run for each.

    As many waves as a verdict needs are finished in any case. Later ones end with the time, between two contests. Both
    files are written anew after each wave.

    Args:
        sides: The sides.
        selection: The cells. Each side has its own sources.
        seconds: The time for all waves.
        undecided: Names the cells that need more processes.
        processes: Processes of each side, rounded up to a whole wave; None for as many as the cells need.
        timeout_s: Seconds after which a cell is given up.
        runs: The folder of the runs.
        say: Is told how it goes on, in lines.
        panel_factory: Makes the panel of a wave.
        clock: Tells the time, in seconds.

    Raises:
        RevisionError: A side cannot be timed. Waves that had ended are recorded as incomplete runs.
        KeyboardInterrupt: Likewise.
    """
    alternation = _Alternation(sides, selection, runs)
    begun = clock()
    end = begun + seconds
    number, longest, is_whole = 0, 0.0, True
    left: Sequence[str] = ["every cell"]
    try:
        with isolation.isolated() as (variables, scratch):
            while is_whole and not _is_enough(number * _EACH, processes, left):
                wave = clock()
                can_stop = number * _EACH >= PROCESSES
                if can_stop and wave + longest > end:
                    break
                specs = [_spec(sides, label, selection, variables, scratch) for label in _ORDER]
                with panel_factory(specs, scratch, seed=number, checks=number == 0, timeout_s=timeout_s) as panel:
                    is_whole = alternation.add(panel, end if can_stop else math.inf, clock)
                longest = max(longest, clock() - wave)
                number += is_whole
                left = undecided(*alternation.records())
                failure = alternation.save(ends=False)
                say(
                    f"{number * _EACH} processes of each side, {len(left)} of {alternation.count:,} cells undecided,"
                    f" {clock() - begun:.0f} s, load {machine_load() or 0:.1f}{f'; {failure}' if failure else ''}"
                )
    except PanelError as error:
        raise RevisionError(f"{error}{alternation.rescued()}") from error
    failure = alternation.save(ends=True)
    notes = [alternation.load_note(number * _EACH)]
    if left and not processes:
        minutes = (clock() - begun) / 60
        named = ", ".join(left[:5]) + (", ..." if len(left) > 5 else "")
        more = "" if number * _EACH >= MOST else f"; take --minutes {max(1, round(2 * minutes))}, or fewer cells"
        notes.append(f"undecided after {minutes:.1f} minutes: {len(left)} cells: {named}{more}")
    notes += [failure] if failure else []
    base, head = alternation.run_files()
    if not failure:
        base, head = load_run(base.path), load_run(head.path)
    return Measured(base, head, tuple(notes), not failure)


def _is_enough(done: int, wanted: int | None, left: Sequence[str]) -> bool:
    if wanted is not None:
        return done >= wanted
    return done >= MOST or (done >= PROCESSES and not left)


def _spec(sides: Sides, label: str, selection: Selection, variables: Mapping[str, str], scratch: str) -> WorkerSpec:
    side = sides.base if label == BASE else sides.head
    folder, own = str(Path(scratch, label)), side.selection(selection)
    shared = {"KERNEL_BRIDGE_CACHE_DIR": folder} | isolation.shared_code(own, folder)
    return WorkerSpec(label, worker_command(own), {**variables, **shared, **side.variables}, side.folder)


@dataclass
class _Recorded:
    """What is known of one side: its cells, and for each what the waves found."""

    side: Side
    opened: Opened | None = None
    waves: list[dict[CellKey, Found]] = field(default_factory=list)


class _Alternation:
    """Collects the results of waves, and writes a run for each side."""

    def __init__(self, sides: Sides, selection: Selection, runs: str | Path | None) -> None:
        self._sides = {BASE: _Recorded(sides.base), HEAD: _Recorded(sides.head)}
        self._selection = replace(selection, sources=sides.sources)
        self._runs = runs
        self._session = new_run_id()
        # In the same second, an id sorts by chance: `previous` shall be the base.
        self._ids = dict(zip((BASE, HEAD), sorted((self._session, new_run_id())), strict=True))
        self._loads: list[float] = []

    @property
    def count(self) -> int:
        """The number of cells that both sides have."""
        first, second = ({_pair(cell) for cell in _cells(one)} for one in self._sides.values())
        return len(first & second)

    def load_note(self, processes: int) -> str:
        """Returns how many processes there were, and how busy the machine was when their waves began."""
        cores = os.cpu_count() or 1
        low, high = min(self._loads, default=0.0), max(self._loads, default=0.0)
        busy = " (something else ran: expect wider intervals)" if high > cores + 1 else ""
        return f"{processes} processes of each side; load of the machine {low:.1f} to {high:.1f} on {cores} cores{busy}"

    def add(self, panel: Panel, end: float, clock: Callable[[], float]) -> bool:
        """Runs a wave; returns whether it came to its end before the clock said that the time is over."""
        self._loads.append(machine_load() or 0.0)
        found = panel.open()
        for label, one in self._sides.items():
            one.opened = one.opened or found[label]
            one.waves.append({})
        paired: dict[CellKey, dict[str, list[Cell]]] = defaultdict(dict)
        for label in self._sides:
            for contest in contests([cell for cell in found[label].cells if cell.backend != "jnp"]):
                paired[_pair(contest[0], backend="")][label] = contest
        for portion in portions([[*chain(*both.values())] for both in paired.values()], _PORTION):
            met = [paired[_pair(group[0], backend="")] for group in portion]
            panel.prepare(
                {label: [cell for contest in met for cell in contest.get(label, [])] for label in self._sides}
            )
            for both in met:
                for label, results in panel.time(both, SECONDS, TURNS).items():
                    self._sides[label].waves[-1] |= {_pair(one.cell): one for one in results}
                if clock() > end:
                    return False
        return True

    def records(self) -> tuple[list[Record], list[Record]]:
        """Returns the records of both sides so far."""
        base, head = self.run_files()
        return base.records, head.records

    def run_files(self) -> tuple[RunFile, RunFile]:
        """Returns both runs from memory, as if they were interrupted now."""
        base, head = (self._run_file(label) for label in self._sides)
        return base, head

    def save(self, *, ends: bool) -> str | None:
        """Writes both files anew, each in one piece; returns why a file could not be written.

        Args:
            ends: Whether the session came to its end.
        """
        try:
            for label in self._sides:
                self._write(label, ends=ends)
        except (ReportError, OSError) as error:
            return f"not recorded: {error}"
        return None

    def rescued(self) -> str:
        """Says where the waves are that had ended, for a message."""
        paths = [str(path) for label in self._sides if (path := self._path(label)).exists()]
        return f"; what was timed before is in {' and '.join(paths)}" if paths else ""

    def _path(self, label: str) -> Path:
        return run_path(self._ids[label], self._runs)

    def _write(self, label: str, *, ends: bool) -> None:
        path = self._path(label)
        part = path.with_name(f".{path.name}.part")
        one = self._sides[label]
        assert one.opened is not None
        try:
            with RunWriter(part, self._header(one)) as writer:
                writer.begin(_cells(one), [result.cell for result in one.opened.skipped])
                for result in self._results(label):
                    writer.append(result)
                if ends:
                    writer.end(int(judge(load_run(part), has_ended=True).exit))
            os.replace(part, path)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _run_file(self, label: str) -> RunFile:
        one = self._sides[label]
        run, results = self._header(one), self._results(label)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        records = [
            Record(schema=SCHEMA, index=index, time=now, run=run, **msgspec.structs.asdict(result))
            for index, result in enumerate(results)
        ]
        assert one.opened is not None
        expected = [*_cells(one), *(result.cell for result in one.opened.skipped)]
        return RunFile(
            path=self._path(label), records=records, expected={cell.key: cell for cell in expected},
            runnable={cell.key for cell in _cells(one)}, begins=1, run_id=run.run_id, headers=[run],
        )  # fmt: skip

    def _results(self, label: str) -> list[CellResult]:
        one = self._sides[label]
        assert one.opened is not None
        found = [self._result(label, cell) for cell in _cells(one)]
        return [*one.opened.skipped, *(result for result in found if result is not None)]

    def _result(self, label: str, cell: Cell) -> CellResult | None:
        """Returns the result of a cell in all waves; None if nothing is known of it.

        Each process has the number of its pair. One in which noise hid the time is left out: then its partner has no
        pair. A result that was wrong in one wave is wrong.
        """
        key = _pair(cell)
        waves = [wave.get(key) for wave in self._sides[label].waves]
        known = [each for found in waves if found for each in (found.judged, *found.processes) if each is not None]
        if not known:
            return None
        timed = [
            _in_block(result, number * _EACH + place)
            for number, found in enumerate(waves)
            for place, result in enumerate(found.processes if found else ())
            if result is not None and result.timing is not None and result.timing.is_steady
        ]
        if any(each.status.failed for each in known) or not timed:
            return merged(None, known)
        # The first one was judged, and measured what a process measures once.
        return merged(known[0], timed)

    def _header(self, one: _Recorded) -> Run:
        assert one.opened is not None
        run = one.opened.run
        return msgspec.structs.replace(
            run,
            run_id=self._ids[one.side.label],
            source=Source(commit=one.side.commit, dirty=False, digest=run.source.digest),
            flags={**run.flags, INTERLEAVED: self._session},
            selection=self._selection.by_option(),
        )


def _cells(one: _Recorded) -> list[Cell]:
    """Returns the cells of a side that are timed."""
    return [cell for cell in (one.opened.cells if one.opened else []) if cell.backend != "jnp"]


def _in_block(result: CellResult, block: int) -> CellResult:
    """Returns the result of one process with the number of its pair."""
    assert result.timing is not None
    processes = [msgspec.structs.replace(one, block=block) for one in result.timing.processes]
    return msgspec.structs.replace(result, timing=msgspec.structs.replace(result.timing, processes=processes))


def _pair(cell: Cell, **changes: Any) -> CellKey:
    """Returns what is equal in two cells that meet: everything but the version of the operator."""
    return msgspec.structs.replace(cell, operator_version=0, **changes).key
