"""Runs every check of a selection in worker processes, and records each as it ends."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reports import ReportError, find_run, last_by_cell
from suites.cells.selection import Selection, SelectionError
from suites.checks import folders
from suites.checks.drawn.session_seed import SEED_FLAG
from suites.sessions import isolation
from suites.sessions.deep_time import expected_minutes
from suites.sessions.session_end import SessionEnd

MOST_JOBS = 8
"""Most workers by default: each needs memory for JAX and, on a GPU, its own context."""


@dataclass(frozen=True)
class Workers:
    """How the checks are spread.

    Attributes:
        jobs: Worker processes; None for one per core, at most :data:`MOST_JOBS`. 0 runs all cells in this process, and
            a cell that crashes ends it.
        timeout_s: Seconds after which a cell is given up.
    """

    jobs: int | None = None
    timeout_s: float = 300.0


def default_jobs() -> int:
    """Returns the number of cores that this process may use, at most :data:`MOST_JOBS`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_JOBS, cores)


def validate(
    selection: Selection,
    workers: Workers,
    *,
    resume: str | None = None,
    verbose: bool = False,
    quietly: bool = False,
    summary: str | None = None,
    seed: int | None = None,
    more: Sequence[str] = (),
) -> SessionEnd:
    """Runs all checks of the selection and records them.

    Args:
        selection: The cells to check.
        workers: How the checks are spread.
        resume: A recorded run to continue.
        verbose: Whether to show source and traceback of each failure; otherwise a failure is one line.
        quietly: Whether to leave out pytest's own output and the grid; a terminal shows how far the session is.
        summary: A file to append the grid to, as Markdown.
        seed: Repeats the random choices of a session; None makes new ones, or repeats the choices of a continued run.
        more: Further arguments of pytest.

    Raises:
        SelectionError: The selection names something unknown, or holds no check that can be made here; or ``resume``
            names no run.
    """
    _require(selection)
    jobs = default_jobs() if workers.jobs is None else workers.jobs
    if selection.profile == "deep":
        minutes = expected_minutes(selection, jobs)
        print(f"the deep profile takes about {max(1, round(minutes))} minutes here", file=sys.stderr, flush=True)
    watcher = _Watcher(shows=quietly)
    with isolation.isolated() as (variables, scratch), _Environment(variables):
        # Workers, and the process that they report to, share a GPU.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        given = isolation.arguments(folders.files(), scratch)
        given += ["--kb-record", *selection.arguments()]
        given += ["-n", str(jobs), "--dist", "worksteal", "--max-worker-restart", "1000"] if jobs else ["-n", "0"]
        given += ["--timeout", f"{workers.timeout_s:g}", "--timeout-method", "thread"]
        if quietly:
            given += ["-p", "no:terminal"]
        else:
            given += ["-q", "--no-header", *(["--tb", "long"] if verbose else ["--tb", "no", "-rN"])]
        given += ["--kb-summary", summary] if summary and not quietly else []
        if resume is not None:
            given += _resumed(resume, scratch)
        given += [] if seed is None else ["--kb-seed", str(seed)]
        code = pytest.main([*given, *more], plugins=[watcher])
    interrupted = code == pytest.ExitCode.INTERRUPTED
    return SessionEnd(
        path=watcher.path, refusal=watcher.refusal, interrupted=interrupted, left=watcher.left, code=int(code)
    )


def _require(selection: Selection) -> None:
    """Refuses a selection before anything is started for it."""
    from suites.cells.runnable import require_runnable
    from suites.checks.register import cases_by_id
    from suites.sessions.preflight import require_sound
    from suites.sessions.preparation import make_cpu_devices

    make_cpu_devices()
    require_sound(selection)
    require_runnable(selection, cases_by_id(selection).values())


def _resumed(name: str, scratch: str) -> list[str]:
    """Returns the options that continue a run. A file lists its cells, so that all workers leave out the same ones."""
    from suites.sessions.finding import key_text
    from suites.sessions.resuming import opened

    try:
        path = find_run(name)
    except ReportError as error:
        raise SelectionError(f"--resume {name}: {error}") from error
    run = opened(name, path)
    done = Path(tempfile.mkstemp(dir=scratch, suffix=".json")[1])
    done.write_text(json.dumps([key_text(record.cell) for record in last_by_cell(run.records)]), encoding="utf-8")
    seed = run.headers[0].flags.get(SEED_FLAG) if run.headers else None
    repeated = [] if seed is None else ["--kb-seed", str(seed)]
    return ["--kb-resume", str(path.resolve()), "--kb-done", str(done), *repeated]


class _Environment:
    """Replaces the environment variables of this process, and so of the processes that it starts."""

    def __init__(self, variables: dict[str, str]):
        self._variables = variables

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self._variables)

    def __exit__(self, *exception: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


class _Watcher:
    """Keeps the results of a session, as a pytest plugin, and shows how far the session is."""

    def __init__(self, *, shows: bool):
        self.path: Path | None = None
        self.refusal: str | None = None
        self.left = 0
        self._status = Console(stderr=True).status("collecting") if shows else None
        self._done = 0

    def pytest_sessionstart(self) -> None:
        if self._status:
            self._status.start()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._status and report.when == "teardown":
            self._done += 1
            self._status.update(f"{self._done} checks made")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        from suites.sessions.checks_plugin import PLUGIN

        session: Any = config.pluginmanager.getplugin(PLUGIN)
        if session is not None:
            self.path = session.writer.path if session.writer.path.exists() else None
            if self.path is None:  # a run without a record leaves nothing
                Path(config.option.xmlpath).unlink(missing_ok=True)
            self.refusal = session.refusal
            self.left = session.left
        if self._status:
            self._status.stop()
