"""Times two revisions in pools of fresh processes, and records one run for each revision.

A pool (:mod:`suites.bench.process_pool`) has two processes of each revision. They time the same group one after the
other, so a change of the machine's state reaches both revisions alike: process i of base and process i of head are a
pair. Pools follow each other until every cell is decided, or the time is over. ``jnp`` is not timed: users do not
change it.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from reports import Cell, CellResult, Record, ReportError, Run, RunWriter, judge, load_run, new_run_id, run_path
from reports.pages.alike import INTERLEAVED
from reports.records.cell import CellKey
from reports.records.run_file import RunFile
from suites.bench.command import PROCESSES, REPETITIONS, SECONDS, worker_command
from suites.bench.groups import chunks, group_cells
from suites.bench.merging import CellResults, merge_results
from suites.bench.messages import Opened
from suites.bench.process_pool import PoolError, ProcessPool, WorkerSpec
from suites.bench.screen import Screen
from suites.cells.selection import Selection
from suites.compare.revisions.inspection import require_own_files
from suites.compare.revisions.revision import BASE, HEAD, Revision
from suites.compare.revisions.revision_pair import RevisionPair
from suites.errors import RevisionError
from suites.processes import isolation
from suites.processes.gpu_lock import GpuLock
from suites.timing.run_header import machine_load

_ORDER = (BASE, HEAD, HEAD, BASE)
"""The revisions of the processes of a pool, in the order in which they start."""

_EACH = _ORDER.count(BASE)

MOST = 32
"""Processes of each revision at most. A cell that is undecided then stays undecided with more."""

_CHUNK_CELLS = 100
"""Cells whose programs a process holds at a time."""

_POOL_S, _CELL_S = 12.0, 3.0
"""Seconds that a pool takes to start, and for each cell of a revision, on two cores: an estimate before the first."""

Undecided = Callable[[Sequence[Record], Sequence[Record]], Sequence[str]]
"""Returns the names of the cells that need more processes, from the records of base and head."""


@dataclass(frozen=True)
class RunPair:
    """The runs of two revisions whose processes were interleaved.

    Attributes:
        base: The run of the older revision.
        head: The run of the newer revision.
        notes: The number of processes, the load, and the undecided cells.
    """

    base: RunFile
    head: RunFile
    notes: tuple[str, ...]


def measure(
    revisions: RevisionPair,
    selection: Selection,
    *,
    seconds: float,
    undecided: Undecided,
    processes: int | None = None,
    timeout_s: float = 300.0,
    runs: str | Path | None = None,
    screen: Screen | None = None,
    pool_factory: Callable[..., ProcessPool] = ProcessPool,
    clock: Callable[[], float] = time.monotonic,
) -> RunPair:
    """Times both revisions until every cell is decided, and records a run for each.

    The first pools, as many as a verdict needs, run to their end in any case. When the time is over, a later pool ends
    before its next group. Both files are written anew after each pool.

    Args:
        revisions: The revisions.
        selection: The cells. Each revision has its own sources.
        seconds: The time for all pools.
        undecided: Returns the cells that need more processes.
        processes: Processes of each revision, rounded up to a multiple of two; None for as many as the cells need.
        timeout_s: Seconds after which a cell is given up.
        runs: The folder of the runs.
        screen: Shows how far the session is.
        pool_factory: Makes a pool.
        clock: Returns the time, in seconds.

    Raises:
        RevisionError: A revision cannot be timed, or a file cannot be written. The pools before it are recorded, as
            incomplete runs.
        KeyboardInterrupt: The user ended the session. The pools before it are recorded, as incomplete runs.
    """
    screen = screen or Screen()
    session = _Session(revisions, selection, runs, screen)
    begun = clock()
    end = begun + seconds
    number, longest, is_complete = 0, 0.0, True
    left: Sequence[str] = ["every cell"]
    try:
        with isolation.isolated() as (variables, scratch):
            while is_complete and not _is_enough(number * _EACH, processes, left):
                start = clock()
                can_stop = number * _EACH >= PROCESSES
                if can_stop and start + longest > end:
                    break
                specs = [_spec(revisions, label, selection, variables, scratch) for label in _ORDER]
                with pool_factory(
                    specs, scratch, seed=number, checks=number == 0, timeout_s=timeout_s, on_event=screen.show_event
                ) as pool:
                    session.open(pool)
                    if number == 0:
                        screen.print(session.least_text(processes or PROCESSES, seconds))
                    screen.total += session.timed
                    is_complete = session.add(pool, end if can_stop else math.inf, clock)
                longest = max(longest, clock() - start)
                number += is_complete
                left = undecided(*(run.records for run in session.save(ends=False)))
                screen.print(
                    f"kernel-bridge: {number * _EACH} processes of each revision, {len(left)} of {session.count:,}"
                    f" cells undecided, {clock() - begun:.0f} s, load {machine_load() or 0:.1f}"
                )
        base, head = session.save(ends=True)
    except PoolError as error:
        raise RevisionError(f"{session.readable(str(error))}{session.saved_files()}") from error
    finally:
        session.close()
    notes = [*session.refusals(), session.load_note(number * _EACH)]
    if left and not processes:
        minutes = (clock() - begun) / 60
        names = ", ".join(left[:5]) + (", ..." if len(left) > 5 else "")
        more = "" if number * _EACH >= MOST else f"; take --minutes {max(1, round(2 * minutes))}, or fewer cells"
        notes.append(f"undecided after {minutes:.1f} minutes: {len(left)} cells: {names}{more}")
    return RunPair(base, head, tuple(notes))


def _is_enough(done: int, wanted: int | None, left: Sequence[str]) -> bool:
    if wanted is not None:
        return done >= wanted
    return done >= MOST or (done >= PROCESSES and not left)


def _spec(
    revisions: RevisionPair, label: str, selection: Selection, variables: Mapping[str, str], scratch: str
) -> WorkerSpec:
    revision = revisions.base if label == BASE else revisions.head
    folder, own = str(Path(scratch, label)), replace(selection, sources=revision.sources)
    shared = {"KERNEL_BRIDGE_CACHE_DIR": folder} | isolation.shared_code(own, folder)
    return WorkerSpec(label, worker_command(own), {**variables, **shared, **revision.variables}, revision.folder)


@dataclass
class _RevisionResults:
    """The cells of one revision, and the results of each pool."""

    revision: Revision
    opened: Opened | None = None
    pools: list[dict[CellKey, CellResults]] = field(default_factory=list)


class _Session:
    """Collects the results of pools, and writes a run for each revision."""

    def __init__(self, revisions: RevisionPair, selection: Selection, runs: str | Path | None, screen: Screen) -> None:
        self._revisions = {BASE: _RevisionResults(revisions.base), HEAD: _RevisionResults(revisions.head)}
        self._selection = replace(selection, sources=revisions.sources)
        self._root = revisions.root
        self._runs = runs
        self._screen = screen
        self._gpu = GpuLock()
        self._session = new_run_id()
        # Ids of the same second have a random order, but the name `previous` must lead to the base.
        self._ids = dict(zip((BASE, HEAD), sorted((self._session, new_run_id())), strict=True))
        self._loads: list[float] = []

    @property
    def count(self) -> int:
        """The number of cells of either revision."""
        first, second = ({_pair_key(cell) for cell in _cells(one)} for one in self._revisions.values())
        return len(first | second)

    @property
    def timed(self) -> int:
        """The number of cells that a pool times, in both revisions together."""
        return sum(len(_cells(one)) for one in self._revisions.values())

    def least_text(self, processes: int, seconds: float) -> str:
        """Returns how many cells there are, and what time they need at least: the first pools run to their end."""
        least = math.ceil(processes / _EACH) * (_POOL_S + self.timed * _CELL_S)
        short = f", longer than --minutes {seconds / 60:.3g}: name fewer cells, such as --operator or --size"
        return (
            f"kernel-bridge: {self.timed:,} cells of both revisions; {processes} processes of each take about"
            f" {max(1, round(least / 60))} minutes{short if least > seconds else ''}"
        )

    def refusals(self) -> list[str]:
        """Returns why a revision has no cell, so that each cell of the other one is NEW or MISSING."""
        both = ((label, one.opened) for label, one in self._revisions.items())
        return [f"{label} has no cell: {opened.refusal}" for label, opened in both if opened and opened.refusal]

    def load_note(self, processes: int) -> str:
        """Returns how many processes there were, and how busy the machine was when each pool began."""
        cores = os.cpu_count() or 1
        low, high = min(self._loads, default=0.0), max(self._loads, default=0.0)
        busy = " (something else ran: expect wider intervals)" if high > cores + 1 else ""
        load = f"load of the machine {low:.1f} to {high:.1f} on {cores} cores{busy}"
        return f"{processes} processes of each revision; {load}"

    def close(self) -> None:
        """Lets the next command time on the GPU."""
        self._gpu.release()

    def open(self, pool: ProcessPool) -> None:
        """Starts a pool, and learns the cells of both revisions from the first one."""
        self._loads.append(machine_load() or 0.0)
        opened = pool.open()
        self._gpu.take(opened[HEAD].run.device.uuid, self._screen.print)
        for label, one in self._revisions.items():
            if one.opened is None:
                require_own_files(one.revision, opened[label].files, self._root)
            one.opened = one.opened or opened[label]
            one.pools.append({})

    def readable(self, text: str) -> str:
        """Returns a message of a process with the name of a revision in place of the temporary folder of its commit."""
        for one in self._revisions.values():
            folder = f"{one.revision.tree}{os.sep}"
            text = text.replace(folder, f"{one.revision}: ", 1).replace(folder, "")
        return text

    def add(self, pool: ProcessPool, end: float, clock: Callable[[], float]) -> bool:
        """Times all groups in a pool; returns whether it ended before the time was over."""
        by_key: dict[CellKey, dict[str, list[Cell]]] = defaultdict(dict)
        for label in self._revisions:
            for group in group_cells(_cells(self._revisions[label])):
                by_key[_pair_key(group[0], backend="")][label] = group
        for chunk in chunks([[*chain(*both.values())] for both in by_key.values()], _CHUNK_CELLS):
            groups = [by_key[_pair_key(group[0], backend="")] for group in chunk]
            pool.prepare(
                {label: [cell for group in groups for cell in group.get(label, [])] for label in self._revisions}
            )
            self._screen.step("prepare", sum(map(len, chunk)))
            for both in groups:
                for label, results in pool.time(both, SECONDS, REPETITIONS).items():
                    self._revisions[label].pools[-1] |= {_pair_key(one.cell): one for one in results}
                self._screen.step("time", sum(map(len, both.values())))
                if clock() > end:
                    return False
        return True

    def save(self, *, ends: bool) -> tuple[RunFile, RunFile]:
        """Replaces both files at once by new ones, and returns both runs.

        Args:
            ends: Whether the session came to its end.

        Raises:
            RevisionError: A file cannot be written.
        """
        try:
            base, head = (self._write(label, ends=ends) for label in self._revisions)
        except (ReportError, OSError) as error:
            raise RevisionError(f"not recorded: {error}{self.saved_files()}") from error
        return base, head

    def saved_files(self) -> str:
        """Returns, for a message, where the pools that ended are recorded."""
        paths = [str(path) for label in self._revisions if (path := self._path(label)).exists()]
        return f"; what was timed before is in {' and '.join(paths)}" if paths else ""

    def _path(self, label: str) -> Path:
        return run_path(self._ids[label], self._runs)

    def _write(self, label: str, *, ends: bool) -> RunFile:
        path = self._path(label)
        part = path.with_name(f".{path.name}.part")
        one = self._revisions[label]
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
        return load_run(path)

    def _results(self, label: str) -> list[CellResult]:
        one = self._revisions[label]
        assert one.opened is not None
        results = [self._result(label, cell) for cell in _cells(one)]
        return [*one.opened.skipped, *(result for result in results if result is not None)]

    def _result(self, label: str, cell: Cell) -> CellResult | None:
        """Returns the result of a cell in all pools; None if it has no result yet.

        Each process gets the number of its pair. A process whose times are noise is left out; the other process of its
        pair then counts alone. If the cell was wrong in one pool, the result is wrong.
        """
        key = _pair_key(cell)
        pools = [pool.get(key) for pool in self._revisions[label].pools]
        results = [each for pool in pools if pool for each in (pool.checked, *pool.processes) if each is not None]
        if not results:
            return None
        timed = [
            _with_pair(result, number * _EACH + index)
            for number, pool in enumerate(pools)
            for index, result in enumerate(pool.processes if pool else ())
            if result is not None and result.timing is not None and result.timing.is_steady
        ]
        if any(each.status.failed for each in results) or not timed:
            return merge_results(None, results)
        # results[0] comes from the process that also checked the cell, and measured memory and roof.
        return merge_results(results[0], timed)

    def _header(self, one: _RevisionResults) -> Run:
        assert one.opened is not None
        run = one.opened.run
        return msgspec.structs.replace(
            run,
            run_id=self._ids[one.revision.label],
            source=msgspec.structs.replace(run.source, commit=one.revision.commit, dirty=False),
            flags={**run.flags, INTERLEAVED: self._session},
            selection=self._selection.by_option(),
        )


def _cells(one: _RevisionResults) -> list[Cell]:
    """Returns the cells of a revision that are timed."""
    return [cell for cell in (one.opened.cells if one.opened else []) if cell.backend != "jnp"]


def _with_pair(result: CellResult, pair: int) -> CellResult:
    """Returns the result of one process with the number of its pair."""
    assert result.timing is not None
    processes = [msgspec.structs.replace(one, block=pair) for one in result.timing.processes]
    return msgspec.structs.replace(result, timing=msgspec.structs.replace(result.timing, processes=processes))


def _pair_key(cell: Cell, **changes: Any) -> CellKey:
    """Returns the key under which a cell of base meets its cell of head: the version of the operator may differ."""
    return msgspec.structs.replace(cell, operator_version=0, **changes).key
