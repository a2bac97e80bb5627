"""What is to be checked in, a recorded pytest session out, spread over worker processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from suites import checks

HERE = Path(__file__).parent
MOST_JOBS = 8
"""Workers by default at most: each needs memory for JAX and, on a GPU, a context of its own."""


@dataclass(frozen=True)
class Selection:
    """What is checked, and how.

    Attributes:
        operators: Files or modules with operators; none for the built-in ones.
        device: ``cpu`` or ``cuda``.
        cells: ``quick`` or ``full``.
        only_operators: Names; none for all.
        only_backends: Names; none for all.
        jobs: Worker processes; 0 runs all in this one, which a cell that crashes then ends.
        timeout_s: Seconds after which a cell is given up.
        more: Further arguments of pytest.
    """

    operators: Sequence[str] = ()
    device: str = "cpu"
    cells: str = "full"
    only_operators: Sequence[str] = ()
    only_backends: Sequence[str] = ()
    jobs: int | None = None
    timeout_s: float = 300.0
    more: Sequence[str] = field(default=())


@dataclass
class Session:
    """What became of a session.

    Attributes:
        code: pytest's exit code.
        path: The run file; None if the session did not come to open one.
    """

    code: int
    path: Path | None


def default_jobs() -> int:
    """As many workers as this process may use cores, up to :data:`MOST_JOBS`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_JOBS, cores)


def run(selection: Selection, quietly: bool = False) -> Session:
    """Runs all checks of the selection in workers and records them.

    Args:
        selection: What is to be checked.
        quietly: Without pytest's own output and the grid; a line on a terminal says how far it is.
    """
    # Workers, and the process that they report to, share a GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jobs = default_jobs() if selection.jobs is None else selection.jobs
    command = [str(HERE / name) for name in checks.files()]
    command += ["-c", str(HERE / "recorded.ini"), "--rootdir", str(Path.cwd()), "--record"]
    command += ["--device", selection.device, "--cells", selection.cells]
    command += ["-n", str(jobs), "--dist", "worksteal", "--max-worker-restart", "100"] if jobs else []
    command += ["--timeout", f"{selection.timeout_s:g}", "--timeout-method", "thread"]
    command += [part for source in selection.operators for part in ("--operators", source)]
    command += [part for name in selection.only_operators for part in ("--operator", name)]
    command += [part for name in selection.only_backends for part in ("--backend", name)]
    watcher = _Watcher(quietly)
    command += ["-p", "no:terminal"] if quietly else ["-q", "--no-header"]
    code = pytest.main([*command, *selection.more], plugins=[watcher])
    return Session(int(code), watcher.path)


class _Watcher:
    """The pytest plugin that keeps where the session was recorded, and shows how far it is."""

    def __init__(self, shows: bool):
        self.path: Path | None = None
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
        from suites.validation import PLUGIN

        session: Any = config.pluginmanager.getplugin(PLUGIN)
        self.path = session.writer.path if session is not None and session.writer.path.exists() else None
        if self._status:
            self._status.stop()
