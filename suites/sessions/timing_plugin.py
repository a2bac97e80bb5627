"""Records each timed cell as it ends: the part of ``bench`` that runs inside pytest.

It sends the command events about its progress (:mod:`suites.sessions.events`). Without a command, in a session that
somebody started with ``pytest --kb-bench``, it prints the table at the end.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from reports import (
    CellResult,
    Record,
    ReportError,
    RunWriter,
    Status,
    completed,
    find_run,
    judge,
    load_run,
    read_run,
    run_path,
)
from reports.options import Exit, again
from suites.bench import gpu, run_header
from suites.bench.bandwidth import roof
from suites.bench.plausible import fields_without_time, implausible
from suites.cells import catalogue
from suites.cells.case import SEED, Case
from suites.cells.marks import no_device, why_skipped
from suites.cells.runnable import require_device, require_runnable
from suites.cells.selection import Selection, SelectionError
from suites.sessions.events import Busy, Ended, Opened, Recorded, Refused, Started, sender
from suites.sessions.preflight import require_names
from suites.sessions.refusal import refusal
from suites.sessions.resuming import continued_header, opened

LIMIT_S = {"quick": 0.2, "full": 3.0}
"""Seconds of sampling per cell, by profile."""

_CAME_TO_AN_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)

PLUGIN = "kernel-bridge-timing"
"""The name that :class:`TimingSession` is registered under."""


@dataclass(frozen=True)
class Recorder:
    """Writes the records of timed cells.

    Attributes:
        writer: Writes the run file.
        limit_s: Seconds that a cell may be sampled.
    """

    writer: RunWriter
    limit_s: float

    def record(self, case: Case, found: dict[str, Any]) -> Record:
        """Writes the record of a cell.

        The roof is measured after the cell, when its kind is needed for the first time: this takes seconds.

        Args:
            case: The cell.
            found: Fields of :class:`reports.Record`: the status, and all that is known.
        """
        send = sender()
        timing, moved = found.get("timing"), found.pop("moved", None)
        if timing and moved:
            send(Busy("measuring the memory bandwidth"))
            limit = (roof if case.platform == "cpu" else gpu.roof)(*moved)
            found |= {"bandwidth_limit": limit.bandwidth, "bandwidth_limit_kind": limit.kind, "bytes": sum(moved)}
            reason = implausible(case.platform, timing, moved, found.get("flops"), limit)
            if reason is not None:
                found, timing = fields_without_time(found, reason), None
        send(Ended(case.cell, found["status"], found.get("reason"), timing.median_ns if timing else None))
        blank: dict[str, Any] = {"shapes": [], "dtypes": [], "seed": SEED}
        record = self.writer.append(CellResult(cell=case.cell, **(blank | found)))
        send(Recorded())
        return record


class TimingSession:
    """Times and records a session with ``--kb-bench``, as a pytest plugin."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._selection = Selection.of(config.option, "kb_")
        require_names(self._selection)
        self._send = sender()
        if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
            raise refusal(
                "--kb-bench was given together with xdist's -n: workers would time each other, and pytest-benchmark "
                "switches itself off. Time on its own: kernel-bridge bench, or add -n 0."
            )
        if hasattr(config.option, "benchmark_quiet"):
            config.option.benchmark_quiet = True  # the table at the end is ours
        self._writer: RunWriter | None = None
        self._done: set[Any] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Opens the run, records skipped cells, and drops them and the cells that a resumed run has."""
        timed = [item for item in items if "speed_case" in getattr(item, "fixturenames", ())]
        cells = {item: case for item in timed if (case := _case(item)) is not None}
        try:
            require_device(self._selection)
            catalogue.check(self._selection.device)
            require_runnable(self._selection, cells.values())
        except SelectionError as error:
            raise refusal(str(error)) from error
        self._open()
        assert self._writer is not None
        left = {item: case for item, case in cells.items() if case.cell.key not in self._done}
        skipped = {item: reason for item, case in left.items() if (reason := why_skipped(case))}
        runs = [item for item in left if item not in skipped]
        try:
            self._writer.begin([left[item].cell for item in runs], [left[item].cell for item in skipped])
            for item, reason in skipped.items():
                cell = left[item].cell
                self._writer.append(
                    CellResult(cell=cell, shapes=[], dtypes=[], seed=SEED, status=Status.SKIPPED, reason=reason)
                )
        except ReportError as error:
            raise refusal(str(error)) from error
        dropped = {*timed} - set(runs)
        self._config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
        self._send(Opened(str(self._writer.path), self._writer.run, len(items)))

    def _open(self) -> None:
        keeps_pages = run_header.keep_freed_pages()
        try:
            run = run_header.header(self._selection, self._selection.profile, keeps_pages)
        except RuntimeError as error:
            raise refusal(no_device(self._selection.device, error)) from error
        name = self._config.option.kb_resume
        if name is None:
            try:
                self._writer = RunWriter(run_path(run.run_id), run)
            except ReportError as error:
                raise refusal(str(error)) from error
            return
        try:
            path = find_run(name)
            before = opened(name, path)
            self._writer = RunWriter(path, continued_header(name, before.headers, run))
        except ReportError as error:
            raise refusal(f"--resume {name}: {error}") from error
        except SelectionError as error:
            raise refusal(str(error)) from error
        self._done = completed(before.records)

    @pytest.fixture(scope="session")
    def recorder(self) -> Recorder:
        """Records the cells of this session."""
        assert self._writer is not None
        return Recorder(self._writer, LIMIT_S[self._selection.profile])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Tells the command which cell begins, so that it knows the cell if this process dies."""
        case = _case(item)
        if case is not None:
            self._send(Started(case.cell))
        return (yield)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the last line of a run that came to its end, and closes the file."""
        if self._writer is None:
            return
        if not (session.shouldstop or session.shouldfail) and session.exitstatus in _CAME_TO_AN_END:
            try:
                self._writer.end(int(judge(load_run(self._writer.path), has_ended=True).exit))
            except ReportError as error:
                self._send(Refused(str(error)))
                session.exitstatus = int(Exit.COULD_NOT_RUN)
        self._writer.close()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the table."""
        from reports.pages.times import benchmark_tables
        from reports.render.terminal import render

        if self._writer is None or not self._writer.path.exists():
            return
        tables = benchmark_tables(read_run(self._writer.path))
        terminalreporter.write_line("")
        terminalreporter.write_line(
            render(tables, width=terminalreporter._tw.fullwidth, color=terminalreporter.hasmarkup)
        )
        terminalreporter.write_line(f"recorded in {self._writer.path}; show it again: {again('show')}")


def _case(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = callspec and callspec.params.get("speed_case")
    return case if isinstance(case, Case) else None
