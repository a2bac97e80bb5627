"""Times two revisions in waves of fresh processes, and records one run for each.

A wave has two processes of each side. All take turns, contest by contest (:mod:`suites.sessions.panel`), so a change of
the machine's state reaches both sides alike. Waves follow each other until each side has enough processes for a
verdict, or the time is over.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from reports import Cell, CellResult, Run, RunWriter, Source, Status, judge, load_run, new_run_id, run_path
from reports.pages.alike import INTERLEAVED
from reports.records.cell import CellKey
from reports.statistics.ranks import least_processes, processes_needed
from suites.cells.selection import Selection
from suites.errors import RevisionError
from suites.revisions.sides import BASE, HEAD, Side, Sides
from suites.sessions import isolation
from suites.sessions.bench_command import worker_command
from suites.sessions.contests import contests, portions
from suites.sessions.events import PROTOCOL, Event, Opened
from suites.sessions.merging import merged
from suites.sessions.panel import Panel, PanelError, WorkerSpec
from suites.sessions.timing_budget import budget

_ORDER = (BASE, HEAD, HEAD, BASE)
"""The processes of a wave, as they are started."""

_EACH = _ORDER.count(BASE)

_PORTION = 100
"""Cells whose programs a process holds at a time; twice as many processes run as in a timing session."""


class PanelLike(Protocol):
    """What is used of :class:`suites.sessions.panel.Panel`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def open(self) -> dict[str, Opened]:
        """Starts the processes."""

    def prepare(self, cells: Mapping[str, Sequence[Cell]]) -> None:
        """Compiles cells."""

    def time(self, contest: Mapping[str, Sequence[Cell]], seconds: float, turns: int) -> dict[str, list[CellResult]]:
        """Times a contest."""


@dataclass(frozen=True)
class Measured:
    """Two recorded runs whose processes alternated.

    Attributes:
        base: The run file of the older side.
        head: The run file of the newer side.
        processes: Processes of each side that timed every cell.
        note: Why there are fewer processes than a verdict needs; None if there are enough.
    """

    base: Path
    head: Path
    processes: int
    note: str | None = None


def measure(
    sides: Sides,
    selection: Selection,
    *,
    seconds: float,
    q: float,
    timeout_s: float = 120.0,
    verbose: bool = False,
    runs: str | Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    on_event: Callable[[Event], None] = lambda event: None,
    panel_factory: Callable[..., PanelLike] = Panel,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Times both sides until each has the processes that a verdict needs, and records a run for each.

    The first wave is finished in any case: a side without all of its cells would have lost them. Later ones end with
    the time, between two contests.

    Args:
        sides: The sides.
        selection: The cells. Each side has its own sources.
        seconds: The time for all waves.
        q: The share of false discoveries that the verdicts allow; it decides how many processes are needed.
        timeout_s: Seconds after which a cell is given up.
        verbose: Whether to show the output of the processes.
        runs: The folder of the runs.
        say: Is told how it goes on, in lines.
        on_event: Is told what the processes do.
        panel_factory: Makes the panel of a wave.
        clock: Tells the time, in seconds.

    Raises:
        RevisionError: A side cannot be timed. Waves that had ended are recorded as incomplete runs.
        KeyboardInterrupt: Likewise.
    """
    for side in (sides.base, sides.head):
        if side.protocol != PROTOCOL:
            raise RevisionError(
                f"{side}: its timing processes cannot take turns with the ones of this version (they know protocol"
                f" {side.protocol}, expected {PROTOCOL}). Record a run with each, and compare the two runs."
            )
    alternation = _Alternation(sides, selection, runs)
    options = {"timeout_s": timeout_s, "verbose": verbose, "on_event": on_event}
    begun = clock()
    end = begun + seconds
    wanted, longest = _EACH, 0.0
    number = 0
    try:
        with isolation.isolated() as (variables, scratch):
            while number * _EACH < wanted and (number == 0 or clock() + longest <= end):
                wave = clock()
                specs = [_spec(sides, label, selection, variables, scratch) for label in _ORDER]
                with panel_factory(specs, scratch, seed=number, **options) as panel:
                    is_whole = alternation.add(panel, math.inf if number == 0 else end, clock)
                longest = max(longest, clock() - wave)
                if is_whole:
                    number += 1
                wanted = max(processes_needed(max(1, alternation.comparable), q), least_processes())
                say(
                    f"{number * _EACH} of {math.ceil(wanted / _EACH) * _EACH} processes of each side,"
                    f" {alternation.comparable:,} cells, {clock() - begun:.0f} s"
                )
                if not is_whole:
                    break
    except PanelError as error:
        raise RevisionError(f"{error}{alternation.rescued()}") from error
    except BaseException:
        alternation.rescued()
        raise
    base, head = alternation.write()
    return Measured(base, head, number * _EACH, _shortage(number * _EACH, wanted, longest, seconds))


def _shortage(processes: int, wanted: int, longest: float, seconds: float) -> str | None:
    if processes >= wanted:
        return None
    needed = math.ceil(longest * math.ceil(wanted / _EACH) / 60 + 0.5)
    return (
        f"each side has {processes} processes in {seconds / 60:.3g} minutes, and a verdict on one cell of this many"
        f" needs {wanted}: take --minutes {needed}, or fewer cells (--operator, --size)"
    )


def _spec(sides: Sides, label: str, selection: Selection, variables: Mapping[str, str], scratch: str) -> WorkerSpec:
    side = sides.base if label == BASE else sides.head
    # What one side has tuned must not reach the other.
    own = {"KERNEL_BRIDGE_CACHE_DIR": str(Path(scratch, label)), **side.variables}
    command = worker_command(side.selection(selection), scratch, str(side.python), side.package)
    return WorkerSpec(label, command, {**variables, **own}, side.folder)


@dataclass
class _Recorded:
    """What is known of one side."""

    side: Side
    opened: Opened | None = None
    waves: list[dict[CellKey, CellResult]] = field(default_factory=list)


class _Alternation:
    """Collects the results of waves, and writes a run for each side."""

    def __init__(self, sides: Sides, selection: Selection, runs: str | Path | None) -> None:
        self._sides = {BASE: _Recorded(sides.base), HEAD: _Recorded(sides.head)}
        self._selection = replace(selection, sources=sides.sources)
        self._runs = runs
        self._id = new_run_id()
        self._written = False

    @property
    def comparable(self) -> int:
        """The number of cells that both sides have timed, in the first wave."""
        timed = [
            {key for key, result in one.waves[0].items() if result.status is Status.PASSED} if one.waves else set()
            for one in self._sides.values()
        ]
        return len(set.intersection(*timed))

    def add(self, panel: PanelLike, end: float, clock: Callable[[], float]) -> bool:
        """Runs a wave; returns whether it came to its end before the clock said that the time is over."""
        found = panel.open()
        for label, one in self._sides.items():
            one.opened = one.opened or found[label]
            one.waves.append({})
        cells = {label: found[label].cells for label in self._sides}
        paired: dict[CellKey, dict[str, list[Cell]]] = defaultdict(dict)
        for label, own in cells.items():
            for contest in contests(own):
                paired[_pair(contest[0], backend="")][label] = contest
        effort = budget(self._selection)
        for portion in portions([[*chain(*both.values())] for both in paired.values()], _PORTION):
            met = [paired[_pair(group[0], backend="")] for group in portion]
            panel.prepare({label: [cell for contest in met for cell in contest.get(label, [])] for label in cells})
            for both in met:
                for label, results in panel.time(both, effort.seconds, effort.turns).items():
                    self._sides[label].waves[-1] |= {_pair(result.cell): result for result in results}
                if clock() > end:
                    return False
        return True

    def rescued(self) -> str:
        """Records the waves so far as incomplete runs; returns where, for a message."""
        if self._written or not any(wave for one in self._sides.values() for wave in one.waves):
            return ""
        paths = [self._write(label, ends=False) for label in self._sides]
        return f"; what was timed before is in {paths[0]} and {paths[1]}"

    def write(self) -> tuple[Path, Path]:
        """Records a run for each side; returns the paths, the base first."""
        self._written = True
        return self._write(BASE, ends=True), self._write(HEAD, ends=True)

    def _write(self, label: str, *, ends: bool) -> Path:
        one = self._sides[label]
        assert one.opened is not None
        run = self._header(one)
        with RunWriter(run_path(run.run_id, self._runs), run) as writer:
            writer.begin(one.opened.cells, [result.cell for result in one.opened.skipped])
            for result in one.opened.skipped:
                writer.append(result)
            for cell in one.opened.cells:
                results = self._results(label, cell)
                if results:
                    writer.append(merged(None, results))
            if ends:
                writer.end(int(judge(load_run(writer.path), has_ended=True).exit))
        return writer.path

    def _results(self, label: str, cell: Cell) -> list[CellResult]:
        """Returns the results of a cell in all waves that both sides finished, so that process i of both met.

        A cell that only one side has counts in all waves of this side.
        """
        key = _pair(cell)
        known = [one.waves for one in self._sides.values() if any(key in wave for wave in one.waves)]
        whole = [
            number for number in range(len(self._sides[label].waves)) if all(key in waves[number] for waves in known)
        ]
        return [self._sides[label].waves[number][key] for number in whole]

    def _header(self, one: _Recorded) -> Run:
        assert one.opened is not None
        run = one.opened.run
        return msgspec.structs.replace(
            run,
            run_id=new_run_id(),
            source=Source(commit=one.side.commit, dirty=False, digest=run.source.digest),
            flags={**run.flags, INTERLEAVED: self._id},
            selection=self._selection.by_option(),
        )


def _pair(cell: Cell, **changes: Any) -> CellKey:
    """Returns what is equal in two cells that meet: everything but the version of the operator."""
    return msgspec.structs.replace(cell, operator_version=0, **changes).key
