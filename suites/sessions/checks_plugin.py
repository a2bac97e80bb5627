"""Records each check as it ends: the part of ``validate`` that runs inside pytest.

Tests may run in worker processes (pytest-xdist), so that a cell which brings its process down does not end the session.
The process that collects their reports is the only one that writes. An expected cell without a report is a failure,
unless somebody ended the session early.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from reports import Cell, CellResult, ReportError, Run, RunWriter, Status, read_run, run_path
from reports.pages.verdicts import PROFILE, validation_tables
from reports.render.markdown import render as as_markdown
from reports.render.terminal import render as as_text
from suites.bench import run_header
from suites.cells.case import SEED
from suites.cells.marks import no_device
from suites.cells.runnable import require_runnable
from suites.cells.selection import Selection, SelectionError
from suites.checks.drawn.session_seed import SEED_FLAG
from suites.checks.register import cases_by_id, check_of_id, checks
from suites.sessions.failure_lines import failure_lines
from suites.sessions.finding import Finding, cell_of
from suites.sessions.preflight import require_names
from suites.sessions.resuming import continued_header

PLUGIN = "kernel-bridge-checks"
"""The name that :class:`ChecksSession` is registered under."""

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""The environment variable with the summary file of a GitHub job; ``--summary`` takes precedence."""


def _parameters(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")


class ChecksSession:
    """Records a session with ``--kb-record``, as a pytest plugin in the process that collects the reports.

    Attributes:
        writer: Writes the run file.
        refusal: Why nothing could be checked, in one line.
        left: Checks that an interrupted session did not reach.
    """

    def __init__(self, config: pytest.Config):
        self._config = config
        self._selection = Selection.of(config.option, "kb_")
        require_names(self._selection)
        self.refusal: str | None = None
        self.left = 0
        try:
            run = run_header.header(self._selection, f"{PROFILE} {self._selection.profile}", False)
        except RuntimeError as error:
            raise pytest.UsageError(no_device(self._selection.device, error)) from error
        run.flags[SEED_FLAG] = config.option.kb_seed
        resumed = config.option.kb_resume
        try:
            self.writer = self._continued(Path(resumed), run) if resumed else RunWriter(run_path(run.run_id), run)
        except ReportError as error:
            raise pytest.UsageError(str(error)) from error
        if config.option.xmlpath is None:  # --junitxml
            config.option.xmlpath = str(self.writer.path.with_suffix(".xml"))
        self._expected: dict[str, None] = {}
        self._recorded: dict[str, Finding] = {}
        self._started: dict[str, float] = {}
        self._begun = time.monotonic()

    def _continued(self, path: Path, run: Run) -> RunWriter:
        try:
            return RunWriter(path, continued_header(str(path), read_run(path), run, same_code=True))
        except SelectionError as error:
            raise pytest.UsageError(str(error)) from error

    # The expected items: from this process, or from the workers.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Takes the items of this process."""
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Takes the items of a worker; all have the same."""
        self._expect(ids)

    def _expect(self, ids: list[str]) -> None:
        cells = cases_by_id(self._selection)
        self._expected |= dict.fromkeys(each for each in ids if check_of_id(each) and _parameters(each) in cells)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Notes when a check began."""
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the phase that decides: the call, or the failed setup before it."""
        if report.nodeid not in self._expected or report.nodeid in self._recorded:
            return
        found = getattr(report, "finding", None)
        if found is not None:
            self._append(report.nodeid, msgspec.convert(found, Finding))
        elif report.failed:  # not the report of a test, but of a worker that died
            self._lost(report.nodeid, str(report.longrepr))

    def _lost(self, nodeid: str, reason: str) -> None:
        seconds = time.monotonic() - self._started.get(nodeid, time.monotonic())
        limit = float(self._config.getoption("timeout", None) or 0)
        status = Status.TIMEOUT if limit and seconds >= limit else Status.CRASHED
        if status is Status.TIMEOUT:
            reason = f"ended after {limit:g} s; {reason}"
        self._append(nodeid, Finding(cell=self._cell(nodeid), status=status, reason=reason))

    def _append(self, nodeid: str, found: Finding) -> None:
        self._recorded[nodeid] = found
        result = CellResult(
            cell=found.cell, shapes=found.shapes, dtypes=found.dtypes, seed=SEED, status=found.status,
            reason=found.reason or None if found.status is Status.PASSED else (found.reason or "without a message"),
            accuracy=found.accuracy,
        )  # fmt: skip
        self.writer.append(result)

    def _cell(self, nodeid: str) -> Cell:
        """Returns the cell of a test that left no finding, by its id."""
        check = check_of_id(nodeid)
        assert check is not None
        return cell_of(cases_by_id(self._selection)[_parameters(nodeid)], check)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Records lost cells as crashed and fails the session; a session that was ended early has no lost cells."""
        missing = [nodeid for nodeid in self._expected if nodeid not in self._recorded]
        ended_early = session.shouldstop or session.shouldfail or session.exitstatus == pytest.ExitCode.INTERRUPTED
        if ended_early:
            self.left = len(missing)
        else:
            for nodeid in missing:
                lost = Finding(cell=self._cell(nodeid), status=Status.CRASHED, reason="its worker process was lost")
                self._append(nodeid, lost)
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._require_checks(session)
        self.writer.close()

    def _require_checks(self, session: pytest.Session) -> None:
        """Fails a session in which nothing was checked."""
        cells = cases_by_id(self._selection)
        made = {found.cell.key for found in self._recorded.values() if found.status is not Status.SKIPPED}
        if not self._expected and not self._config.option.kb_done:
            self.refusal = "no check is left: the arguments after -- deselect all of them."
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            return
        try:
            if not self._config.option.kb_done:
                require_runnable(self._selection, [cells[_parameters(nodeid)] for nodeid in self._expected])
            if not made and not self._config.option.kb_done:
                raise SelectionError(f"no check was made of {self._selection}: all {len(self._expected)} were skipped.")
        except SelectionError as error:
            self.refusal = str(error)
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the failures, the grid, and where it is recorded."""
        if not self.writer.path.exists() or not self._recorded or self.refusal:
            return
        order = [check.name for check in checks()]
        records = read_run(self.writer.path)
        write = terminalreporter.write_line
        write("")
        for line in failure_lines(self._recorded.values(), self._selection):
            write(line, red=True)
        tables = validation_tables(records, order, failures=False)
        write(as_text(tables, width=terminalreporter._tw.fullwidth, color=terminalreporter.hasmarkup))
        seconds = time.monotonic() - self._begun
        write(f"{len(self._recorded)} cells in {seconds:.0f} s, recorded in {self.writer.path}")
        write(f"random choices follow from seed {self._config.option.kb_seed}; repeat them with --seed")
        summary = self._config.option.kb_summary or os.environ.get(SUMMARY_VARIABLE)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as page:
                page.write(as_markdown(validation_tables(records, order)))
