"""Runs every check of a selection in worker processes, and records each when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reports import last_by_cell
from suites.cells.selection import Selection
from suites.checks.drawn.session_choices import SEED_FLAG
from suites.processes import isolation
from suites.processes.progress import Progress
from suites.processes.resuming import find_resumed, load_for_resume
from suites.processes.session_end import SessionEnd
from suites.timing.run_header import usable_cores

_CHECKS = Path(__file__).parents[1] / "checks"

CELLS_OF_WORKER = 40
"""Cells for each worker: with fewer, the imports of another worker, five seconds, would cost more than they save."""

MOST_JOBS = 16
"""Most workers by default: each needs memory for JAX and, on a GPU, its own context."""


def default_jobs(cells: int) -> int:
    """Returns one worker for each :data:`CELLS_OF_WORKER` cells: at least one, at most one for each core."""
    return max(1, min(MOST_JOBS, len(usable_cores()), cells // CELLS_OF_WORKER))


def validate(
    selection: Selection,
    *,
    jobs: int | None,
    timeout_s: float,
    resume: str | None = None,
    verbose: bool = False,
    quietly: bool = False,
    seed: int | None = None,
    more: Sequence[str] = (),
) -> SessionEnd:
    """Runs all checks of the selection and records them.

    Args:
        selection: The cells to check.
        jobs: Worker processes; None for :func:`default_jobs`. 0 runs all cells in this process, and a cell that crashes
            ends it.
        timeout_s: Seconds after which a cell is given up.
        resume: A recorded run to continue.
        verbose: Whether to show a short traceback of each failure; otherwise a failure is one line.
        quietly: Whether to leave out pytest's own output; a failed check has no traceback then.
        seed: Repeats the random choices of a session; None makes new ones, or repeats the choices of a continued run.
        more: Further arguments of pytest.

    Raises:
        SelectionError: The selection has an unknown name, or no check that can run here.
        ReportError: ``resume`` names no run.
    """
    cells = _require(selection)
    jobs = default_jobs(cells) if jobs is None else jobs
    resumed = None if resume is None else find_resumed(resume)
    watcher = _Watcher()
    with isolation.isolated() as (variables, scratch), patch.dict(os.environ, variables, clear=True):
        # Workers, and the process that they report to, share a GPU.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if jobs:  # this process has imported Numba, so only workers can have another number of threads
            # Parallel loops have to be right with more than two threads, also on two cores.
            os.environ.setdefault("NUMBA_NUM_THREADS", str(max(4, os.cpu_count() or 1)))
            # Without this, the C library returns the pages of each large array to the system, and faults them in again.
            for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
                os.environ.setdefault(name, str(1 << 30))
        words = isolation.arguments(sorted(_CHECKS.glob("test_*.py")))
        words += ["--kb-record", *selection.arguments()]
        words += ["-n", str(jobs), "--dist", "worksteal", "--max-worker-restart", "1000"] if jobs else ["-n", "0"]
        words += ["--timeout", f"{timeout_s:g}", "--timeout-method", "thread"]
        if quietly:
            words += ["-p", "no:terminal"]
        else:
            words += [
                "-qq",
                "--no-header",
                "--disable-warnings",  # those of other libraries, such as of small grids, are no verdicts
                *(["--tb", "short"] if verbose else ["--tb", "no", "-rN"]),
            ]
        if resumed is not None:
            words += _done(resumed, scratch)
        words += [] if seed is None else ["--kb-seed", str(seed)]
        code = pytest.main([*words, *more], plugins=[watcher])
    interrupted = code == pytest.ExitCode.INTERRUPTED
    path = watcher.end.path or (resumed if interrupted else None)
    return replace(watcher.end, path=path, interrupted=interrupted, code=int(code))


def _require(selection: Selection) -> int:
    """Refuses a selection before any process starts for it; returns the number of its cells."""
    from suites.cells.runnable import require_runnable
    from suites.checks.register import cases_by_id, cells_of, checks
    from suites.processes.preflight import require_sound
    from suites.processes.preparation import make_cpu_devices

    make_cpu_devices()
    require_sound(selection)
    require_runnable(selection, cases_by_id(selection).values())
    return sum(len(cells_of(check, selection)) for check in checks())


def _done(path: Path, scratch: str) -> list[str]:
    """Returns the options that continue a run. A file lists its cells, so that all workers skip the same ones."""
    from suites.validate.finding import key_text

    run = load_for_resume(str(path), path)
    done = Path(scratch, "done.json")
    done.write_text(json.dumps([key_text(record.cell) for record in last_by_cell(run.records)]), encoding="utf-8")
    seed = run.headers[0].flags.get(SEED_FLAG) if run.headers else None
    repeated = [] if seed is None else ["--kb-seed", str(seed)]
    return ["--kb-resume", str(path.resolve()), "--kb-done", str(done), *repeated]


class _Watcher:
    """Keeps the results of a session, as a pytest plugin, and shows the progress."""

    def __init__(self) -> None:
        self.end = SessionEnd(path=None)
        self._progress = Progress("checks", "check")

    def pytest_sessionstart(self) -> None:
        self._progress.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._progress.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._progress.total = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._progress.step("check")
            self._progress.show(report.nodeid.partition("[")[2].rstrip("]"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._progress.stop()

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        from suites.validate.checks_plugin import PLUGIN

        session: Any = config.pluginmanager.getplugin(PLUGIN)
        if session is not None:
            path = session.writer.path if session.writer.path.exists() else None
            self.end = SessionEnd(path=path, refusal=session.refusal, left=session.left)
        self.pytest_sessionfinish()
