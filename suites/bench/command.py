"""Times the cells of a selection in several fresh processes, records them, and shows them as they end.

A cell that brings a process down is recorded as CRASHED, one that takes too long as TIMEOUT; another process takes the
place of the lost one. This process never runs a kernel, so nothing that a kernel does can lose a record.
"""

from __future__ import annotations

import sys

import msgspec

from reports import ReportError, Run, RunWriter, judge, last_by_cell, load_run, run_path
from suites.bench.groups import chunks, group_cells
from suites.bench.process_pool import PoolError, ProcessPool, WorkerSpec
from suites.bench.screen import Screen
from suites.cells.selection import Selection, SelectionError
from suites.processes import isolation
from suites.processes.gpu_lock import GpuLock
from suites.processes.resuming import RunLock, continued_header, find_resumed, load_for_resume
from suites.processes.session_end import SessionEnd

PROCESSES = 4
"""Fresh processes that time each cell. An interval of their ratios works from three on."""

REPETITIONS, SECONDS = 2, 0.15
"""How often each process times a group, and the seconds that the timed loops of one cell take in each repetition."""

_CHUNK_CELLS = 24
"""Cells that are compiled at a time, before they are timed: so the first results are on the screen early."""

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
            with ProcessPool(
                [spec] * (processes or PROCESSES), scratch, timeout_s=timeout_s, on_event=session.screen.show_event
            ) as pool:
                session.run(pool)
        except KeyboardInterrupt:
            return session.end(interrupted=True)
        except (PoolError, SelectionError, ReportError) as error:
            return session.end(str(error))
        finally:
            session.close()
    return session.end()


def worker_command(selection: Selection) -> tuple[str, ...]:
    """Returns the command that starts a timing process for a selection."""
    # -P: the user's current folder may hold modules with the names of ours.
    return sys.executable, "-P", "-m", "suites.bench.worker", msgspec.json.encode(selection).decode()


class _Session:
    """Writes the run of a session, and counts the cells that are left.

    Raises:
        ReportError: There is no run to continue.
        SelectionError: Another session continues it.
    """

    def __init__(self, selection: Selection, resume: str | None) -> None:
        self.screen = Screen()
        self._resume, self._path = resume, None if resume is None else find_resumed(resume)
        self._lock, self._gpu = RunLock(), GpuLock()
        if self._path is not None:  # before any process starts
            self._lock.take(self._path)
        self._writer: RunWriter | None = None
        self._left = 0

    def run(self, pool: ProcessPool) -> None:
        """Times all cells."""
        (opened,) = pool.open().values()
        self._gpu.take(opened.run.device.uuid, self.screen.print)
        done = self._open(opened.run)
        assert self._writer is not None
        cells = [cell for cell in opened.cells if cell.key not in done]
        skipped = [result for result in opened.skipped if result.cell.key not in done]
        self._writer.begin(cells, [result.cell for result in skipped])
        self._lock.take(self._writer.path)
        for result in skipped:
            self._writer.append(result)
        self._left = len(cells)
        self.screen.begin(len(cells), str(self._writer.path))
        for chunk in chunks(group_cells(cells), _CHUNK_CELLS):
            pool.prepare({_LABEL: [cell for group in chunk for cell in group]})
            self.screen.step("prepare", sum(map(len, chunk)))
            for group in chunk:
                for each in pool.time({_LABEL: group}, SECONDS, REPETITIONS)[_LABEL]:
                    self.screen.show_record(self._writer.append(each.merge()))
                    self._left -= 1
                self.screen.step("time", len(group))
        self._writer.end(int(judge(load_run(self._writer.path), has_ended=True).exit))

    def end(self, refusal: str | None = None, *, interrupted: bool = False) -> SessionEnd:
        """Returns how the session ended, and how many cells it did not reach."""
        path = self._writer.path if self._writer else self._path if interrupted else None
        return SessionEnd(
            path=path if path and path.exists() else None, refusal=refusal, interrupted=interrupted, left=self._left
        )

    def close(self) -> None:
        """Closes the run file."""
        self._lock.release()
        self._gpu.release()
        if self._writer is not None:
            self._writer.close()

    def _open(self, run: Run) -> set[object]:
        """Opens the run file; returns the keys of the cells that it holds already."""
        if self._path is None or self._resume is None:
            self._writer = RunWriter(run_path(run.run_id), run)
            return set()
        previous = load_for_resume(self._resume, self._path)
        header = continued_header(self._resume, previous.headers, run)
        self._writer = RunWriter(self._path, header)
        for record in previous.records:
            self.screen.row(record)
        return {record.cell.key for record in last_by_cell(previous.records)}
