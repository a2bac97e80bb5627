"""Times the cells of a selection in a process of its own, shows them as they end, and prints the table.

A cell that brings the process down is recorded as CRASHED, one that takes too long as TIMEOUT; a new process continues
after it. Only this process, which never runs a kernel, writes to the terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import select

import msgspec
from rich.console import Console

from reports import Cell, CellResult, ReportError, RunWriter, Status
from reports.records.cell import CellKey, short_dtype
from reports.render.units import count_text, ratio_text, time_text
from suites.cells.selection import Selection
from suites.sessions import isolation
from suites.sessions.events import VARIABLE, Busy, Ended, Event, Opened, Recorded, Refused, Started, decode

_NO_TESTS = 5  # pytest's exit code where a resumed run has all of its cells

_PATIENCE_S = 120.0
"""Seconds that a process may take for anything but a cell: imports, collection, measuring a roof."""


@dataclass(frozen=True)
class Outcome:
    """How a timing session ended.

    Attributes:
        path: The run file; None if no cell ended.
        refusal: Why the session could not run or go on, in one line.
        interrupted: Whether the user ended it.
        left: Cells that were not reached.
    """

    path: Path | None
    refusal: str | None = None
    interrupted: bool = False
    left: int = 0


def bench(
    selection: Selection, *, resume: str | None = None, timeout_s: float = 120.0, verbose: bool = False
) -> Outcome:
    """Times every cell of the selection.

    Args:
        selection: What is timed.
        resume: A recorded run to continue.
        timeout_s: Seconds after which a cell is given up.
        verbose: With the output of pytest.
    """
    session = _Session(selection, timeout_s, verbose)
    with isolation.isolated() as (variables, scratch):
        try:
            return session.run(variables, scratch, resume)
        except KeyboardInterrupt:
            return session.outcome(interrupted=True)


class _Session:
    def __init__(self, selection: Selection, timeout_s: float, verbose: bool):
        self._selection = selection
        self._timeout_s = timeout_s
        self._verbose = verbose
        self._screen = _Screen()
        self._opened: Opened | None = None
        self._left = 0
        self._current: Cell | None = None
        self._ended = False
        self._lost: set[CellKey] = set()

    def run(self, variables: dict[str, str], scratch: str, resume: str | None) -> Outcome:
        """Starts processes until every cell has a record."""
        with self._screen:
            while True:
                refusal = self._run_process(variables, scratch, resume)
                if refusal is not None:
                    return self.outcome(refusal)
                if self._current is None:
                    return self.outcome()
                assert self._opened is not None
                resume = self._opened.path

    def outcome(self, refusal: str | None = None, *, interrupted: bool = False) -> Outcome:
        """What has become of the session so far."""
        path = Path(self._opened.path) if self._opened else None
        return Outcome(path if path and path.exists() else None, refusal, interrupted, self._left)

    def _run_process(self, variables: dict[str, str], scratch: str, resume: str | None) -> str | None:
        """Runs one process to its end; returns why the session cannot go on, if it cannot."""
        self._current = None
        read, write = os.pipe()
        arguments = isolation.arguments([isolation.HERE / "bench" / "test_speed.py"], scratch)
        arguments += ["--kb-bench", *self._selection.arguments(), "-q", "--no-header"]
        arguments += ["--kb-resume", resume] if resume else []
        with tempfile.TemporaryFile(dir=scratch) as log:
            process = subprocess.Popen(
                # -P: the folder that the user is in may hold modules of the names of ours.
                [sys.executable, "-P", "-m", "pytest", *arguments],
                env=variables | {VARIABLE: str(write)},
                stdin=subprocess.DEVNULL,
                stdout=None if self._verbose else log,
                stderr=None if self._verbose else log,
                pass_fds=[write],
                start_new_session=True,  # so that Ctrl-C reaches this process alone, which ends that one
            )
            os.close(write)
            try:
                refusal = self._follow(process, read)
            finally:
                _end(process)
                os.close(read)
            nothing_left = process.returncode == _NO_TESTS and self._opened is not None and not self._opened.cells
            if refusal is not None or self._current is not None or process.returncode in (0, 1) or nothing_left:
                return refusal
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            return f"the timing process ended with {_described(process.returncode)}; its last words:\n" + "\n".join(
                lines[-15:]
            )

    def _follow(self, process: subprocess.Popen[bytes], pipe: int) -> str | None:
        """Takes the events of a process until it ends."""
        for event in _events(pipe, self._deadline):
            if event is None:
                refusal = self._lose(Status.TIMEOUT, f"ended after {self._timeout_s:g} s")
                _end(process)
                return refusal if self._current else "the timing process hung before its first cell"
            refusal = self._take(event)
            if refusal is not None:
                return refusal
        process.wait()
        return self._lose(Status.CRASHED, f"the process ended with {_described(process.returncode)}")

    def _deadline(self) -> float:
        return self._timeout_s if self._current is not None and not self._ended else _PATIENCE_S

    def _take(self, event: Event) -> str | None:
        match event:
            case Refused(reason):
                return reason
            case Opened():
                self._opened, self._left = event, event.cells
                self._screen.opened(event)
            case Busy(what):
                self._screen.busy(what)
            case Started(cell):
                self._current, self._ended = cell, False
                self._screen.started(cell)
            case Ended():
                self._ended = True
                self._screen.ended(event)
            case Recorded():
                self._current = None
                self._left -= 1
        return None

    def _lose(self, status: Status, reason: str) -> str | None:
        """Records the cell that ended its process; returns why the session cannot go on, if it cannot.

        The next process times the cells without a record. If this record is not written, it would time the same cell
        again, and end again.
        """
        if self._current is None or self._opened is None:
            return None
        cell, path = self._current, self._opened.path
        if cell.key in self._lost:
            return f"{cell.id} ended its process again, because {path} has no record of the first time"
        self._lost.add(cell.key)
        try:
            with RunWriter(path, self._opened.run) as writer:
                writer.append(CellResult(cell=cell, shapes=[], dtypes=[], seed=0, status=status, reason=reason))
        except (ReportError, OSError) as error:
            return f"{cell.id} ended its process, and {path} cannot be written: {error}"
        self._screen.ended(Ended(cell, status, reason))
        self._left -= 1
        return None


def _events(pipe: int, seconds: Callable[[], float]) -> Iterator[Event | None]:
    """The events from a pipe until it is closed; None where nothing came for ``seconds()``, after which it ends."""
    rest = b""
    while True:
        if not select([pipe], [], [], seconds())[0]:
            yield None
            return
        data = os.read(pipe, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from map(decode, lines)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those that it started."""
    if process.poll() is None:
        for number, seconds in ((signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return


def _described(code: int) -> str:
    """How a process ended, such as ``SIGSEGV``."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class _Screen:
    """Shows a session on standard error: a line for each cell, and on a terminal one that changes."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("starting") if self._console.is_terminal else None
        self._begun = time.monotonic()
        self._total = self._done = 0
        self._baseline: dict[object, float] = {}

    def __enter__(self) -> None:
        if self._status:
            self._status.start()

    def __exit__(self, *exception: object) -> None:
        if self._status:
            self._status.stop()

    def busy(self, what: str) -> None:
        """The session does something else than time a cell."""
        if self._status:
            self._status.update(f"{self._place()}{what}")
        elif not self._done:
            self._line(what)

    def opened(self, event: Opened) -> None:
        """The session knows its cells."""
        self._total = self._done + event.cells
        if not self._done:
            self._line(f"{count_text(event.cells)} cells, recorded in {event.path}")

    def started(self, cell: Cell) -> None:
        """A cell begins."""
        if self._status:
            self._status.update(f"{self._place()}{cell.id}")

    def ended(self, event: Ended) -> None:
        """A cell ended; the ratio is the one to jnp, which comes first."""
        self._done += 1
        cell = event.cell
        what = f"{cell.operator:18.18} {short_dtype(cell.dtype):4} {count_text(cell.size):>10}  {cell.backend:19.19}"
        if event.median_ns is None:
            self._line(f"{what} {event.status}: {' '.join((event.reason or '').split())}", "red")
            return
        key = msgspec.structs.replace(cell, backend="").key
        if cell.backend == "jnp":
            self._baseline[key] = event.median_ns
        base = self._baseline.get(key)
        ratio = f"{ratio_text(event.median_ns / base):>6}x jnp" if base and cell.backend != "jnp" else ""
        self._line(f"{what} {time_text(event.median_ns):>8} {ratio}".rstrip())

    def _place(self) -> str:
        if not self._total:
            return ""
        return f"[{self._done}/{self._total}, {time.monotonic() - self._begun:.0f} s] "

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, soft_wrap=True, markup=False)
