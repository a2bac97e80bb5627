"""Times the cells of a selection in several fresh processes, records them, and shows them as they end.

A cell that brings a process down is recorded as CRASHED, one that takes too long as TIMEOUT; another process takes the
place of the lost one. This process never runs a kernel, so nothing that a kernel does can lose a record.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reports import ReportError, Run, RunWriter, completed, find_run, judge, load_run, run_path
from suites.cells.selection import Selection, SelectionError
from suites.sessions import isolation
from suites.sessions.contests import contests, portions
from suites.sessions.panel import Panel, PanelError, WorkerSpec
from suites.sessions.resuming import continued_header, opened
from suites.sessions.screen import Screen
from suites.sessions.session_end import SessionEnd
from suites.sessions.timing_budget import Budget, budget

_PORTION = 200
"""Cells whose programs a process holds at a time."""

_LABEL = "bench"


def bench(
    selection: Selection,
    *,
    resume: str | None = None,
    timeout_s: float = 120.0,
    processes: int | None = None,
    keeps_memory: bool = False,
    verbose: bool = False,
) -> SessionEnd:
    """Times every cell of the selection.

    Args:
        selection: The cells to time.
        resume: A recorded run to continue.
        timeout_s: Seconds after which a cell is given up.
        processes: How many processes time each cell; None for the number of the profile.
        keeps_memory: Whether the processes keep freed memory.
        verbose: Whether to show the output of pytest.
    """
    if resume is not None:
        _found(resume)  # before any process starts
    session = _Session(selection, resume)
    effort = budget(selection)
    count = processes or effort.processes
    with isolation.isolated() as (variables, scratch), session.screen:
        spec = WorkerSpec(
            _LABEL, (*worker_command(selection, scratch), *(["--kb-keep-memory"] if keeps_memory else [])), variables
        )
        try:
            with Panel(
                [spec] * count, scratch, timeout_s=timeout_s, verbose=verbose, on_event=session.screen.heard
            ) as panel:
                session.run(panel, effort)
        except KeyboardInterrupt:
            return session.end(interrupted=True)
        except (PanelError, SelectionError, ReportError) as error:
            return session.end(str(error))
        finally:
            session.close()
    return session.end()


def worker_command(
    selection: Selection, scratch: str, python: str = sys.executable, package: Path = isolation.HERE
) -> tuple[str, ...]:
    """Returns the command that starts a timing process.

    Args:
        selection: The cells that it collects.
        scratch: A folder for the files that plugins leave behind.
        python: The interpreter.
        package: The folder of this package in the environment of the interpreter.
    """
    arguments = isolation.arguments([package / "bench" / "test_speed.py"], scratch, package)
    arguments += ["--kb-bench", *selection.arguments(), "-q", "--no-header"]
    # -P: the user's current folder may hold modules with the names of ours.
    return python, "-P", "-m", "pytest", *arguments


def _found(name: str) -> Path:
    try:
        return find_run(name)
    except ReportError as error:
        raise SelectionError(f"--resume {name}: {error}") from error


class _Session:
    """Writes the run of a session, and knows how far it came."""

    def __init__(self, selection: Selection, resume: str | None) -> None:
        self.screen = Screen()
        self._selection, self._resume = selection, resume
        self._writer: RunWriter | None = None
        self._left = 0

    def run(self, panel: Panel, effort: Budget) -> None:
        """Times all cells."""
        (found,) = panel.open().values()
        done = self._open(found.run)
        assert self._writer is not None
        cells = [cell for cell in found.cells if cell.key not in done]
        skipped = [result for result in found.skipped if result.cell.key not in done]
        self._writer.begin(cells, [result.cell for result in skipped])
        for result in skipped:
            self._writer.append(result)
        self._left = len(cells)
        self.screen.opened(len(cells), str(self._writer.path))
        for portion in portions(contests(cells), _PORTION):
            panel.prepare({_LABEL: [cell for contest in portion for cell in contest]})
            for contest in portion:
                for result in panel.time({_LABEL: contest}, effort.seconds, effort.turns)[_LABEL]:
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
        if self._writer is not None:
            self._writer.close()

    def _open(self, run: Run) -> set[object]:
        """Opens the run file; returns the keys of the cells that it holds already."""
        if self._resume is None:
            self._writer = RunWriter(run_path(run.run_id), run)
            return set()
        path = _found(self._resume)
        before = opened(self._resume, path)
        header = continued_header(self._resume, before.headers, run)
        try:
            self._writer = RunWriter(path, header)
        except ReportError as error:
            raise SelectionError(f"--resume {self._resume}: {error}") from error
        return set(completed(before.records))
