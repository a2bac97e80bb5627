"""Times the cells of a selection in a separate process, and shows them as they end.

A cell that brings the process down is recorded as CRASHED, one that takes too long as TIMEOUT; a new process continues
after it. Only this process, which never runs a kernel, writes to the terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from select import select

from reports import Cell, CellResult, ReportError, RunWriter, Status
from reports.records.cell import CellKey
from suites.cells.selection import Selection
from suites.sessions import isolation
from suites.sessions.events import VARIABLE, Busy, Ended, Event, Opened, Recorded, Refused, Started, decode
from suites.sessions.screen import Screen
from suites.sessions.session_end import SessionEnd

_NO_TESTS = 5  # pytest's exit code if a resumed run has all of its cells

_PATIENCE_S = 120.0
"""Seconds that a process may take for anything but a cell: imports, collection, measuring a roof."""


def bench(
    selection: Selection, *, resume: str | None = None, timeout_s: float = 120.0, verbose: bool = False
) -> SessionEnd:
    """Times every cell of the selection.

    Args:
        selection: The cells to time.
        resume: A recorded run to continue.
        timeout_s: Seconds after which a cell is given up.
        verbose: Whether to show the output of pytest.
    """
    session = _Session(selection, timeout_s, verbose)
    with isolation.isolated() as (variables, scratch):
        try:
            return session.run(variables, scratch, resume)
        except KeyboardInterrupt:
            return session.end(interrupted=True)


class _Session:
    def __init__(self, selection: Selection, timeout_s: float, verbose: bool):
        self._selection = selection
        self._timeout_s = timeout_s
        self._verbose = verbose
        self._screen = Screen()
        self._opened: Opened | None = None
        self._left = 0
        self._current: Cell | None = None
        self._ended = False
        self._lost: set[CellKey] = set()

    def run(self, variables: dict[str, str], scratch: str, resume: str | None) -> SessionEnd:
        """Starts processes until every cell has a record."""
        with self._screen:
            while True:
                refusal = self._run_process(variables, scratch, resume)
                if refusal is not None:
                    return self.end(refusal)
                if self._current is None:
                    return self.end()
                assert self._opened is not None
                resume = self._opened.path

    def end(self, refusal: str | None = None, *, interrupted: bool = False) -> SessionEnd:
        """Returns how the session ended, with the cells that it reached."""
        path = Path(self._opened.path) if self._opened else None
        return SessionEnd(
            path=path if path and path.exists() else None, refusal=refusal, interrupted=interrupted, left=self._left
        )

    def _run_process(self, variables: dict[str, str], scratch: str, resume: str | None) -> str | None:
        """Runs one process to its end; returns why the session cannot go on, or None."""
        self._current = None
        read, write = os.pipe()
        arguments = isolation.arguments([isolation.HERE / "bench" / "test_speed.py"], scratch)
        arguments += ["--kb-bench", *self._selection.arguments(), "-q", "--no-header"]
        arguments += ["--kb-resume", resume] if resume else []
        with tempfile.TemporaryFile(dir=scratch) as log:
            process = subprocess.Popen(
                # -P: the user's current folder may hold modules with the names of ours.
                [sys.executable, "-P", "-m", "pytest", *arguments],
                env=variables | {VARIABLE: str(write)},
                stdin=subprocess.DEVNULL,
                stdout=None if self._verbose else log,
                stderr=None if self._verbose else log,
                pass_fds=[write],
                start_new_session=True,  # so that Ctrl-C reaches only this process, which ends its child
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
        """Records the cell that ended its process; returns why the session cannot go on, or None.

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
    """Yields the events from a pipe until it is closed; yields None and stops if nothing came for ``seconds()``."""
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
    """Ends a process and the processes that it started."""
    if process.poll() is None:
        for number, seconds in ((signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return


def _described(code: int) -> str:
    """Returns how a process ended, such as ``SIGSEGV``."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
