"""Conducts several fresh processes that time the same cells: each compiles them first, then they take turns.

The process is the unit of replication: samples of one process share its addresses and the state of its caches. Only one
process runs at a time while cells are timed. In a contest (all backends of one operator, dtype and size) every process
has several turns, in a random order, so a change of the machine's state reaches all of them alike.
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
from suites.bench.contests import contests
from suites.bench.merging import Found
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
    SharedPlace,
    Started,
    Turn,
    TurnEnded,
    event,
    write,
)
from suites.cells.case import SEED

_PATIENCE_S = 120.0
"""Seconds that a process may take for anything but a cell: imports, collection, a roof."""


class PanelError(RuntimeError):
    """A session cannot go on, for a reason that the message says in one line."""


@dataclass(frozen=True)
class WorkerSpec:
    """Says how a process is started.

    Attributes:
        label: The side that it belongs to: processes of one label are replicates of each other.
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

    def __init__(self, cell: Cell | None, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.cell, self.status, self.reason = cell, status, reason


class _Worker:
    """One process, and what is known of its state."""

    def __init__(self, spec: WorkerSpec, scratch: str) -> None:
        self.spec = spec
        self.opened: Opened | None = None
        self._order: list[Cell] = []
        self._started: Cell | None = None
        self._heard = time.monotonic()
        self.place = SharedPlace()
        self.pipe, up = Pipe(duplex=False)
        down, self._down = Pipe(duplex=False)
        given = [up.fileno(), down.fileno(), self.place.descriptor]
        self._log: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115  closed by close
        try:
            self.process = subprocess.Popen(
                spec.command,
                env={**spec.variables, VARIABLE: ",".join(map(str, given))},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=given,
                cwd=spec.folder,
                start_new_session=True,  # so that Ctrl-C reaches only the command, which ends its processes
            )
        finally:
            up.close()
            down.close()

    def send(self, order: Order) -> None:
        """Gives an order."""
        self._order = list(order.cells) if isinstance(order, Prepare | Turn) else []
        self._heard = time.monotonic()
        self.place.set(SharedPlace.NONE)
        with contextlib.suppress(BrokenPipeError):  # it died: reading says so
            write(self._down, order)

    def take(self, timeout_s: float) -> Event | None:
        """Returns its next message; None if there is none within a second.

        Raises:
            _Lost: The process ended, or sent nothing for too long, while it worked on a cell.
            PanelError: It ended or sent nothing otherwise, or it says that it cannot run.
        """
        if not self.pipe.poll(1.0):
            # Processes that import at the same time slow each other down.
            limit = timeout_s if self.cell is not None else max(_PATIENCE_S, timeout_s)
            if time.monotonic() - self._heard > limit:
                self._give_up(limit)
            return None
        self._heard = time.monotonic()
        found = event(self.pipe)
        if found is None:
            self.process.wait()
            ended = described(self.process.returncode)
            if self.cell is None:
                raise PanelError(f"a timing process ended with {ended}; {self.last_words()}")
            raise _Lost(self.cell, Status.CRASHED, f"the process ended with {ended}")
        match found:
            case Started(cell):
                self._started = cell
            case Prepared() | Ready() | TurnEnded():
                self._started = None
            case Refused(reason):
                raise PanelError(reason)
        return found

    def _give_up(self, seconds: float) -> None:
        self.kill()
        if self.cell is None:
            raise PanelError(f"a timing process was silent for {seconds:g} s; {self.last_words()}")
        raise _Lost(self.cell, Status.TIMEOUT, f"ended after {seconds:g} s")

    @property
    def cell(self) -> Cell | None:
        """The cell that runs now."""
        place = self.place.get()
        return self._order[place] if place < len(self._order) else self._started

    def last_words(self) -> str:
        """Returns the end of what the process printed."""
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
        self._down.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # It may still write messages, which nobody reads.
            end = time.monotonic() + patience_s
            while self.process.poll() is None and time.monotonic() < end:
                if self.pipe.poll(0.05) and event(self.pipe) is None:
                    self.process.wait(max(0.0, end - time.monotonic()))
        self.kill()
        self.pipe.close()
        os.close(self.place.descriptor)
        self._log.close()
        return self.process.returncode


class Panel:
    """Several processes that time the same cells. A context manager, which ends them.

    Args:
        specs: The processes.
        scratch: A folder for their output.
        timeout_s: Seconds after which a cell is given up.
        on_event: Is told what the processes do.
        seed: Decides the order of the turns.
        checks: Whether one process of each label checks each cell, and measures its roof and its memory. Replicates of
            a panel that did so need not do it again.
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
        self._judges: dict[tuple[str, CellKey], int] = {}
        self._known: dict[tuple[str, CellKey], CellResult] = {}
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
            PanelError: A process cannot run.
        """
        for spec in self._specs:
            self._workers.append(_Worker(spec, self._scratch))
        for worker in self._workers:
            self._wait_for(worker, Opened)
        found: dict[str, Opened] = {}
        for worker in self._workers:
            assert worker.opened is not None
            found.setdefault(worker.spec.label, worker.opened)
        return found

    def prepare(self, cells: Mapping[str, Sequence[Cell]]) -> None:
        """Lets all processes compile the cells of their label, at the same time; one also checks each, with ``checks``.

        Raises:
            PanelError: A process cannot run, or ended outside of a cell.
        """
        self._prepared = {label: list(each) for label, each in cells.items()}
        for label, each in self._prepared.items():
            own = [number for number, worker in enumerate(self._workers) if worker.spec.label == label]
            # One process judges all cells of a contest: they have the same truth.
            for place, contest in enumerate(contests(each)) if self._checks else ():
                self._judges |= {(label, cell.key): own[place % len(own)] for cell in contest}
        for number in range(len(self._workers)):
            self._order_to_prepare(number)
        waiting = set(range(len(self._workers)))
        while waiting:
            for number in self._worth_asking(waiting):
                try:
                    found = self._workers[number].take(self._timeout_s)
                except _Lost as lost:
                    self._replace(number, lost)
                    continue
                self._note(number, found)
                if isinstance(found, Ready):
                    waiting.discard(number)

    def time(self, contest: Mapping[str, Sequence[Cell]], seconds: float, turns: int) -> dict[str, list[Found]]:
        """Times a contest in all processes, in turn.

        Args:
            contest: The cells of the contest, by label.
            seconds: How long the rounds of one cell should take in one turn.
            turns: The number of turns of each process.

        Returns:
            What is known of each cell, by label.

        Raises:
            PanelError: A process cannot run, or ended outside of a cell.
        """
        ended: dict[int, dict[CellKey, CellResult]] = {}
        for turn in range(turns):
            order = [number for number, worker in enumerate(self._workers) if contest.get(worker.spec.label)]
            self._random.shuffle(order)
            for number in order:
                results = self._turn(number, contest[self._workers[number].spec.label], seconds, turn == turns - 1)
                ended[number] = {result.cell.key: result for result in results}
        found = {label: [self._found(label, cell, ended) for cell in cells] for label, cells in contest.items()}
        for label, cells in contest.items():
            done = {cell.key for cell in cells}
            self._prepared[label] = [cell for cell in self._prepared[label] if cell.key not in done]
        return found

    def _found(self, label: str, cell: Cell, ended: Mapping[int, Mapping[CellKey, CellResult]]) -> Found:
        lost = self._lost.get((label, cell.key))
        if lost is not None:
            return Found(cell, lost)
        own = [number for number, worker in enumerate(self._workers) if worker.spec.label == label]
        known = self._known.get((label, cell.key))
        return Found(cell, known, [ended.get(number, {}).get(cell.key) for number in own])

    def _turn(self, number: int, cells: Sequence[Cell], seconds: float, last: bool) -> list[CellResult]:
        """Gives a process a turn; again without a cell that brought it down."""
        while True:
            worker = self._workers[number]
            label = worker.spec.label
            left = [cell for cell in cells if (label, cell.key) not in self._lost and self._passed(label, cell)]
            if not left:
                return []
            first = next(each for each, other in enumerate(self._workers) if other.spec.label == label)
            worker.send(Turn(left, seconds, last, self._checks and number == first))
            try:
                timed = self._wait_for(worker, TurnEnded)
                assert isinstance(timed, TurnEnded)
                return timed.results
            except _Lost as lost:
                self._replace(number, lost)
                self._prepare_alone(number)

    def _prepare_alone(self, number: int) -> None:
        while True:
            try:
                self._wait_for(self._workers[number], Ready)
                return
            except _Lost as lost:
                self._replace(number, lost)

    def _passed(self, label: str, cell: Cell) -> bool:
        known = self._known.get((label, cell.key))
        return known is None or known.status is Status.PASSED

    def _replace(self, number: int, lost: _Lost) -> None:
        """Notes the cell that ended a process, and starts another process, which prepares what is left."""
        old = self._workers[number]
        label = old.spec.label
        if lost.cell is None:
            raise PanelError(f"a timing process was lost: {lost.reason}; {old.last_words()}")
        # Another process may have lost the same cell at the same time. Nobody runs it again, so this comes to an end.
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
        # Each process begins elsewhere, so that what one compiles to files the others find there.
        own = [each for each, worker in enumerate(self._workers) if worker.spec.label == label]
        begin = len(cells) * own.index(number) // len(own)
        judged = [cell for cell in cells if self._judges.get((label, cell.key)) == number]
        self._workers[number].send(Prepare([*cells[begin:], *cells[:begin]], judged))

    def _wait_for(self, worker: _Worker, kind: type[Event]) -> Event:
        number = self._workers.index(worker)
        while True:
            found = worker.take(self._timeout_s)
            self._note(number, found)
            if isinstance(found, kind):
                return found

    def _worth_asking(self, waiting: set[int]) -> list[int]:
        """Returns the processes that have sent something; all of them if none has for a second."""
        pipes = {self._workers[number].pipe: number for number in waiting}
        return [pipes[pipe] for pipe in wait(list(pipes), 1.0)] or sorted(waiting)  # type: ignore[index]

    def _note(self, number: int, found: Event | None) -> None:
        worker = self._workers[number]
        match found:
            case Opened():
                if found.protocol != PROTOCOL:
                    raise PanelError(
                        f"{worker.spec.label} times by protocol {found.protocol}, this version by {PROTOCOL}: they"
                        " cannot take turns. Record a run with each, and compare the two runs."
                    )
                worker.opened = found
            case Prepared(result):
                key = worker.spec.label, result.cell.key
                judges = self._judges.get(key) == number
                if judges or (result.status is not Status.PASSED and self._passed(worker.spec.label, result.cell)):
                    self._known[key] = result
        if isinstance(found, Started | Prepared | TurnEnded):
            self._on_event(found)


def described(code: int) -> str:
    """Returns how a process ended, such as ``SIGSEGV``."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
