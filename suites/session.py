"""A timing session: one record per cell as it ends, a progress bar meanwhile, a table at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from reports import RunWriter, completed, find_run, read_run, run_path
from reports.compare import header_differences
from reports.frame import to_frame
from reports.tables import benchmark_tables
from reports.terminal import render
from suites import environment, gpu
from suites.backends import Backend
from suites.bandwidth import measure, roof
from suites.catalogue import operators
from suites.params import Case

LIMIT_S = {"quick": 0.25, "full": 3.0}
"""Seconds of sampling per cell, by profile."""


@dataclass(frozen=True)
class Recorder:
    """Where a cell's evidence goes, and how long it may be sampled."""

    writer: RunWriter
    limit_s: float

    def limit(self, case: Case, inputs: Any) -> dict[str, Any]:
        """The fields of a record that say what bandwidth its cell is compared with, see :mod:`suites.bandwidth`."""
        limit = roof if case.platform == "cpu" else gpu.roof
        bandwidth, kind = limit(case.operator.bytes_read(*inputs), case.operator.bytes_written(*inputs))
        return {"bandwidth_limit": bandwidth, "bandwidth_limit_kind": kind}


PLUGIN = "kernel-bridge-speed"
"""The name that :class:`SpeedSession` is registered under."""


class SpeedSession:
    """The pytest plugin of a session with ``--profile``."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._profile = str(config.getoption("--profile"))
        self._platform = str(config.getoption("--device"))
        self._check_workers()
        if hasattr(config.option, "benchmark_quiet"):
            config.option.benchmark_quiet = True  # the table at the end is ours
        self._writer: RunWriter | None = None
        self._done: set[Any] = set()
        self._progress: Progress | None = None
        self._task: Any = None

    def _check_workers(self) -> None:
        if getattr(self._config.option, "numprocesses", None) or hasattr(self._config, "workerinput"):
            raise pytest.UsageError(
                "--profile was given together with xdist's -n: workers would time each other, and pytest-benchmark "
                "switches itself off. Run the timing session on its own: python -m suites bench, or add -n 0."
            )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keeps the cells asked for, without those that the resumed run has."""
        speed = [item for item in items if item.get_closest_marker("speed")]
        if not speed:
            return
        # Names are checked first: a run is opened only if it can be recorded.
        chosen_operators, chosen_backends = self._chosen("--operator", operators()), self._chosen("--backend", Backend)

        self._open()

        def wanted(item: Any) -> bool:
            case = item.callspec.params["speed_case"]
            return (
                case.operator.name in chosen_operators
                and case.backend.id in chosen_backends
                and case.cell.key not in self._done
            )

        dropped = {item for item in speed if not wanted(item)}
        self._config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]

    def _chosen(self, option: str, known: Iterable[Any]) -> list[str]:
        """The names given with an option, all of them if it was not given."""
        names = [str(name) for name in known]
        given: list[str] = self._config.getoption(option)
        unknown = [name for name in given if name not in names]
        if unknown:
            raise pytest.UsageError(f"{option} {unknown[0]}: there is no such one. Known are {', '.join(names)}.")
        return given or names

    def _open(self) -> None:
        resumed = self._config.getoption("--resume")
        keeps_pages = environment.keep_freed_pages()
        run = environment.header(self._profile, self._platform, keeps_pages, None)
        if resumed:
            path = find_run(resumed)
            records = read_run(path)
            old = records[0].run
            different = header_differences(old, run)
            if different or old.profile != self._profile:
                reason = "; ".join(different) or f"profile {old.profile!r}, now {self._profile!r}"
                raise pytest.UsageError(f"--resume {resumed}: that run was made elsewhere or otherwise: {reason}")
            self._done = completed(records)
            same = {name: getattr(old, name) for name in ("run_id", "started", "copy_bandwidth")}
            self._writer = RunWriter(path, msgspec.structs.replace(run, **same))
            return
        bandwidth = measure("memory", "copy") if self._platform == "cpu" else gpu.bandwidth("memory", "copy")
        run = msgspec.structs.replace(run, copy_bandwidth=bandwidth)
        self._writer = RunWriter(run_path(run.run_id), run)

    @property
    def recorder(self) -> Recorder:
        """Where the cells of this session are recorded."""
        assert self._writer is not None
        return Recorder(self._writer, LIMIT_S[self._profile])

    # Progress: a bar on a terminal, pytest's own lines elsewhere.

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        console = Console(stderr=True)
        if console.is_terminal and session.items:
            columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
            self._task = self._progress.add_task("", total=len(session.items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._show(description=nodeid.partition("[")[2].rstrip("]"))

    def pytest_runtest_logfinish(self) -> None:
        self._show(advance=1)

    def _show(self, **change: Any) -> None:
        if self._progress is None:
            return
        with self._config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            self._progress.start()
            self._progress.update(self._task, **change)
            self._progress.refresh()

    def pytest_sessionfinish(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._progress is not None:
            with self._config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                self._progress.stop()

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots between the redraws of the bar."""
        if self._progress is not None and report.passed:
            return ("passed" if report.when == "call" else "", "", "")
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._writer is None or not self._writer.path.exists():
            return
        tables = benchmark_tables(to_frame(read_run(self._writer.path)))
        terminalreporter.write_line("")
        terminalreporter.write_line(
            render(tables, width=max(100, terminalreporter._tw.fullwidth), color=terminalreporter.hasmarkup)
        )
        terminalreporter.write_line(f"recorded in {self._writer.path}; show it again: python -m reports show")
