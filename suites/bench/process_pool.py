"""Times the same cells in a pool of fresh processes: all compile at the same time, then one after the other times.

The process is the unit of replication: samples of one process share its addresses and the state of its caches. Every
process times a group (all backends of one operator, dtype and size) several times. In each repetition the processes
follow each other in a random order, so a change of the machine's state reaches all of them alike.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Pipe, wait
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from reports import Cell, CellResult, Status
from reports.records.cell import CellKey
from suites.bench.groups import group_cells
from suites.bench.merging import CellResults
from suites.bench.messages import (
    PROTOCOL,
    VARIABLE,
    Event,
    Finish,
    Opened,
    Order,
    Prepare,
    Prepared,
    Ready,
    Refused,
    SharedIndex,
    Started,
    TimeCells,
    Timed,
    read,
    write,
)
from suites.cells.case import SEED
from suites.processes.time_limit import Overtime, TimeLimit

_PATIENCE_S = 120.0
"""Seconds that a process may take for anything else than a cell: imports, collection, a roof."""


class PoolError(RuntimeError):
    """The session cannot go on; the message says why in one line."""


@dataclass(frozen=True)
class WorkerSpec:
    """Says how a process is started.

    Attributes:
        label: Processes of one label run the same code, and are replicates of each other.
        command: The command, which starts :mod:`suites.bench.worker`.
        variables: Its environment.
        folder: Its working folder; None for the current one.
    """

    label: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(repr=False)
    folder: Path | None = None


class _Lost(Exception):
    """A process ended, or was ended, while it worked on a cell."""

    def __init__(self, cell: Cell, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.cell, self.status, self.reason = cell, status, reason


class _Worker:
    """One process: its pipes, its output, and the cell that it runs."""

    def __init__(self, spec: WorkerSpec, scratch: str) -> None:
        self.spec = spec
        self.opened: Opened | None = None
        self._order: list[Cell] = []
        self._started: Cell | None = None
        self._running = SharedIndex()
        self.events, events = Pipe(duplex=False)
        orders, self._orders = Pipe(duplex=False)
        descriptors = [events.fileno(), orders.fileno(), self._running.descriptor]
        self._log: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115  closed by close
        try:
            self.process = subprocess.Popen(
                spec.command,
                env={**spec.variables, VARIABLE: ",".join(map(str, descriptors))},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=descriptors,
                cwd=spec.folder,
                start_new_session=True,  # so that Ctrl-C reaches only the command, which ends its processes
            )
        finally:
            events.close()
            orders.close()
        self._limit: TimeLimit | None = None

    def send(self, order: Order) -> None:
        """Gives an order."""
        self._order = list(order.cells) if isinstance(order, Prepare | TimeCells) else []
        self._limit = None
        self._running.set(SharedIndex.NONE)
        with contextlib.suppress(BrokenPipeError):  # the process is dead, which the next read reports
            write(self._orders, order)

    def next_event(self, timeout_s: float) -> Event | None:
        """Returns the next message of the process; None if there is none within a second.

        Raises:
            _Lost: The process ended, or sent nothing for too long, while it worked on a cell.
            PoolError: The process ended or sent nothing at another time, or it says that it cannot run.
        """
        if not self.events.poll(1.0):
            # Processes that import at the same time slow each other down.
            seconds = timeout_s if self.cell is not None else max(_PATIENCE_S, timeout_s)
            if self._limit is None or self._limit.seconds != seconds:
                self._limit = TimeLimit(seconds, self.process.pid)
            if over := self._limit.overtime():
                self._give_up(over)
            return None
        self._limit = None
        event = read(self.events)
        if event is None:
            code = self.process.wait()
            exit_text = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            if self.cell is None:
                raise PoolError(f"a timing process ended with {exit_text}; {self.last_words()}")
            raise _Lost(self.cell, Status.CRASHED, f"the process ended with {exit_text}")
        match event:
            case Started(cell):
                self._started = cell
            case Prepared() | Ready() | Timed():
                self._started = None
            case Refused(reason):
                raise PoolError(reason)
        return event

    def _give_up(self, over: Overtime) -> None:
        self.kill()
        if self.cell is None:
            raise PoolError(f"a timing process was silent: {over.reason}; {self.last_words()}")
        raise _Lost(self.cell, over.status, over.reason)

    @property
    def cell(self) -> Cell | None:
        """The cell that runs now."""
        index = self._running.get()
        return self._order[index] if index < len(self._order) else self._started

    def last_words(self) -> str:
        """Returns the end of the output of the process."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return "its last words:\n" + "\n".join(lines[-15:]) if lines else "it printed nothing"

    def kill(self) -> None:
        """Ends the process and the processes that it started."""
        if self.process.poll() is None:
            for number, seconds in ((signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
                    return

    def close(self, patience_s: float) -> int | None:
        """Lets the process end, and returns its exit code; kills it if it takes longer."""
        self._orders.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Read its last messages, or a full pipe would keep it from ending.
            end = time.monotonic() + patience_s
            while self.process.poll() is None and time.monotonic() < end:
                if self.events.poll(0.05) and read(self.events) is None:
                    self.process.wait(max(0.0, end - time.monotonic()))
        self.kill()
        self.events.close()
        os.close(self._running.descriptor)
        self._log.close()
        return self.process.returncode


class ProcessPool:
    """Several processes that time the same cells. At the end of its context all processes end.

    Args:
        specs: The processes.
        scratch: A folder for their output.
        timeout_s: Seconds after which a cell is given up.
        on_event: Is called with each event of the processes.
        seed: Decides the order of the processes.
        checks: Whether one process of each label checks each cell, and measures its roof and its memory. If an earlier
            pool did so, later ones need not do it again.
    """

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        scratch: str,
        *,
        timeout_s: float = 120.0,
        on_event: Callable[[Event], None] = lambda event: None,
        seed: int = 0,
        checks: bool = True,
    ) -> None:
        self._scratch, self._timeout_s = scratch, timeout_s
        self._checks = checks
        self._on_event = on_event
        self._random = random.Random(seed)
        self._specs = list(specs)
        self._workers: list[_Worker] = []
        self._checkers: dict[tuple[str, CellKey], int] = {}
        self._checked: dict[tuple[str, CellKey], CellResult] = {}
        self._lost: dict[tuple[str, CellKey], CellResult] = {}
        self._prepared: dict[str, list[Cell]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in self._workers:
            worker.send(Finish()) if kind is None else worker.kill()
        for worker in self._workers:
            worker.close(_PATIENCE_S)

    def open(self) -> dict[str, Opened]:
        """Starts the processes; returns, for each label, the cells that its first process collected.

        Raises:
            PoolError: A process cannot run, or the selection fits no cell of any label.
        """
        for spec in self._specs:
            self._workers.append(_Worker(spec, self._scratch))
        for worker in self._workers:
            self._wait_for(worker, Opened)
        first: dict[str, Opened] = {}
        for worker in self._workers:
            assert worker.opened is not None
            first.setdefault(worker.spec.label, worker.opened)
        refusals = [opened.refusal for opened in first.values() if opened.refusal]
        if len(refusals) == len(first):
            raise PoolError(refusals[-1])
        return first

    def prepare(self, cells: Mapping[str, Sequence[Cell]]) -> None:
        """Lets all processes compile the cells of their label, at the same time; one also checks each, with ``checks``.

        Raises:
            PoolError: A process cannot run, or ended outside of a cell.
        """
        self._prepared = {label: list(each) for label, each in cells.items()}
        for label, each in self._prepared.items():
            own = [number for number, worker in enumerate(self._workers) if worker.spec.label == label]
            # One process checks all cells of a group: their true results are the same.
            for index, group in enumerate(group_cells(each)) if self._checks else ():
                self._checkers |= {(label, cell.key): own[index % len(own)] for cell in group}
        for number in range(len(self._workers)):
            self._order_to_prepare(number)
        self._wait_until_ready(set(range(len(self._workers))))

    def _wait_until_ready(self, waiting: set[int]) -> None:
        while waiting:
            pipes = {self._workers[number].events: number for number in waiting}
            # All of them if none has sent anything for a second: one may have taken too long.
            for number in [pipes[pipe] for pipe in wait(list(pipes), 1.0)] or sorted(waiting):  # type: ignore[index]
                try:
                    event = self._workers[number].next_event(self._timeout_s)
                except _Lost as lost:
                    self._replace(number, lost)
                    continue
                self._note(number, event)
                if isinstance(event, Ready):
                    waiting.discard(number)

    def time(
        self, group: Mapping[str, Sequence[Cell]], seconds: float, repetitions: int
    ) -> dict[str, list[CellResults]]:
        """Times a group in all processes, one after the other.

        Args:
            group: The cells of the group, by label.
            seconds: How long the rounds of one cell should take in one repetition.
            repetitions: How often each process times the group.

        Returns:
            The results of each cell, by label.

        Raises:
            PoolError: A process cannot run, or ended outside of a cell.
        """
        latest: dict[int, dict[CellKey, CellResult]] = {}
        for repetition in range(repetitions):
            order = [number for number, worker in enumerate(self._workers) if group.get(worker.spec.label)]
            self._random.shuffle(order)
            for number in order:
                cells, last = group[self._workers[number].spec.label], repetition == repetitions - 1
                latest[number] = {result.cell.key: result for result in self._time_in(number, cells, seconds, last)}
        results = {label: [self._results(label, cell, latest) for cell in cells] for label, cells in group.items()}
        for label, cells in group.items():
            done = {cell.key for cell in cells}
            self._prepared[label] = [cell for cell in self._prepared[label] if cell.key not in done]
        return results

    def _results(self, label: str, cell: Cell, latest: Mapping[int, Mapping[CellKey, CellResult]]) -> CellResults:
        lost = self._lost.get((label, cell.key))
        if lost is not None:
            return CellResults(cell, lost)
        own = [number for number, worker in enumerate(self._workers) if worker.spec.label == label]
        checked = self._checked.get((label, cell.key))
        return CellResults(cell, checked, [latest.get(number, {}).get(cell.key) for number in own])

    def _time_in(self, number: int, cells: Sequence[Cell], seconds: float, last: bool) -> list[CellResult]:
        """Times cells in one process. If a cell ends the process, a new one times the other cells."""
        while True:
            worker = self._workers[number]
            label = worker.spec.label
            left = [cell for cell in cells if (label, cell.key) not in self._lost and self._passed(label, cell)]
            if not left:
                return []
            first = next(each for each, other in enumerate(self._workers) if other.spec.label == label)
            worker.send(TimeCells(left, seconds, last, self._checks and number == first))
            try:
                timed = self._wait_for(worker, Timed)
                assert isinstance(timed, Timed)
                return timed.results
            except _Lost as lost:
                self._replace(number, lost)
                self._wait_until_ready({number})

    def _passed(self, label: str, cell: Cell) -> bool:
        checked = self._checked.get((label, cell.key))
        return checked is None or checked.status is Status.PASSED

    def _replace(self, number: int, lost: _Lost) -> None:
        """Notes the cell that ended a process, and starts another process, which prepares the other cells."""
        old = self._workers[number]
        label = old.spec.label
        # Two processes may lose the same cell at the same time. No process runs a lost cell again, so this ends.
        self._lost.setdefault(
            (label, lost.cell.key),
            CellResult(cell=lost.cell, shapes=[], dtypes=[], seed=SEED, status=lost.status, reason=lost.reason),
        )
        old.close(0.0)
        worker = self._workers[number] = _Worker(old.spec, self._scratch)
        self._wait_for(worker, Opened)
        self._order_to_prepare(number)

    def _order_to_prepare(self, number: int) -> None:
        label = self._workers[number].spec.label
        cells = [cell for cell in self._prepared.get(label, []) if (label, cell.key) not in self._lost]
        # Each process begins at another cell, so that processes find files that others have compiled.
        own = [each for each, worker in enumerate(self._workers) if worker.spec.label == label]
        begin = len(cells) * own.index(number) // len(own)
        to_check = [cell for cell in cells if self._checkers.get((label, cell.key)) == number]
        self._workers[number].send(Prepare([*cells[begin:], *cells[:begin]], to_check))

    def _wait_for(self, worker: _Worker, kind: type[Event]) -> Event:
        number = self._workers.index(worker)
        while True:
            event = worker.next_event(self._timeout_s)
            self._note(number, event)
            if isinstance(event, kind):
                return event

    def _note(self, number: int, event: Event | None) -> None:
        worker = self._workers[number]
        match event:
            case Opened():
                if event.protocol != PROTOCOL:
                    raise PoolError(
                        f"{worker.spec.label} speaks protocol {event.protocol} of timing processes, this version"
                        f" {PROTOCOL}: they cannot be timed together. Record a run with each, and compare the two runs."
                    )
                worker.opened = event
            case Prepared(result):
                key = worker.spec.label, result.cell.key
                checks = self._checkers.get(key) == number
                if checks or (result.status is not Status.PASSED and self._passed(worker.spec.label, result.cell)):
                    self._checked[key] = result
        if isinstance(event, Started | Prepared | Timed):
            self._on_event(event)
