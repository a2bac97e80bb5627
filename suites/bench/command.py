"""Times the cells of a selection in several fresh processes, records them, and shows them as they end.

A cell that brings a process down is recorded as CRASHED, one that takes too long as TIMEOUT; another process takes the
place of the lost one. This process never runs a kernel, so nothing that a kernel does can lose a record.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from reports import ReportError, Run, RunWriter, completed, find_run, judge, load_run, run_path
from suites.bench.contests import contests, portions
from suites.bench.panel import Panel, PanelError, WorkerSpec
from suites.bench.screen import Screen
from suites.cells.selection import Selection, SelectionError
from suites.processes import isolation
from suites.processes.resuming import RunLock, continued_header, opened
from suites.processes.session_end import SessionEnd

PROCESSES = 4
"""Fresh processes that time each cell. An interval of their ratios works from three on."""

TURNS, SECONDS = 2, 0.15
"""Turns of each process in a contest, and how long the timed loops of one cell take in each: 0.3 s in all."""

_PORTION = 24
"""Cells that are compiled before they are timed: the results of the first ones are on the screen early."""

_LABEL = "bench"


def bench(
    selection: Selection, *, resume: str | None = None, timeout_s: float = 300.0, processes: int | None = None
) -> SessionEnd:
    """Times every cell of the selection.

    Args:
        selection: The cells to time.
        resume: A recorded run to continue.
        timeout_s: Seconds after which a cell is given up.
        processes: How many processes time each cell; None for :data:`PROCESSES`.
    """
    session = _Session(selection, resume)
    with isolation.isolated() as (variables, scratch), session.screen:
        spec = WorkerSpec(_LABEL, worker_command(selection), variables | isolation.shared_code(selection, scratch))
        try:
            with Panel(
                [spec] * (processes or PROCESSES), scratch, timeout_s=timeout_s, on_event=session.screen.heard
            ) as panel:
                session.run(panel)
        except KeyboardInterrupt:
            return session.end(interrupted=True)
        except (PanelError, SelectionError, ReportError) as error:
            return session.end(str(error))
        finally:
            session.close()
    return session.end()


def worker_command(selection: Selection) -> tuple[str, ...]:
    """Returns the command that starts a timing process for a selection."""
    # -P: the user's current folder may hold modules with the names of ours.
    return sys.executable, "-P", "-m", "suites.bench.worker", msgspec.json.encode(selection).decode()


class _Session:
    """Writes the run of a session, and knows how far it came.

    Raises:
        SelectionError: There is no run to continue, or another session continues it.
    """

    def __init__(self, selection: Selection, resume: str | None) -> None:
        self.screen = Screen()
        self._resume, self._path = resume, None
        self._lock = RunLock()
        if resume is not None:  # before any process starts
            try:
                self._path = find_run(resume)
            except ReportError as error:
                raise SelectionError(f"--resume {resume}: {error}") from error
            self._lock.take(self._path)
        self._writer: RunWriter | None = None
        self._left = 0

    def run(self, panel: Panel) -> None:
        """Times all cells."""
        (found,) = panel.open().values()
        done = self._open(found.run)
        assert self._writer is not None
        cells = [cell for cell in found.cells if cell.key not in done]
        skipped = [result for result in found.skipped if result.cell.key not in done]
        self._writer.begin(cells, [result.cell for result in skipped])
        self._lock.take(self._writer.path)
        for result in skipped:
            self._writer.append(result)
        self._left = len(cells)
        self.screen.opened(len(cells), str(self._writer.path))
        for portion in portions(contests(cells), _PORTION):
            panel.prepare({_LABEL: [cell for contest in portion for cell in contest]})
            for contest in portion:
                for each in panel.time({_LABEL: contest}, SECONDS, TURNS)[_LABEL]:
                    result = each.merged()
                    self._writer.append(result)
                    self._left -= 1
                    self.screen.ended(result)
        self._writer.end(int(judge(load_run(self._writer.path), has_ended=True).exit))

    def end(self, refusal: str | None = None, *, interrupted: bool = False) -> SessionEnd:
        """Returns how the session ended, with the cells that it reached."""
        path = Path(self._writer.path) if self._writer else None
        return SessionEnd(
            path=path if path and path.exists() else None, refusal=refusal, interrupted=interrupted, left=self._left
        )

    def close(self) -> None:
        """Closes the run file."""
        self._lock.release()
        if self._writer is not None:
            self._writer.close()

    def _open(self, run: Run) -> set[object]:
        """Opens the run file; returns the keys of the cells that it holds already."""
        if self._path is None or self._resume is None:
            self._writer = RunWriter(run_path(run.run_id), run)
            return set()
        before = opened(self._resume, self._path)
        header = continued_header(self._resume, before.headers, run)
        try:
            self._writer = RunWriter(self._path, header)
        except ReportError as error:
            raise SelectionError(f"--resume {self._resume}: {error}") from error
        return set(completed(before.records))
