"""Records each check when it ends: the part of ``validate`` that runs inside pytest.

Tests may run in worker processes (pytest-xdist), so that a cell that crashes its process does not end the session. Only
the process that collects their reports writes records. The run file begins with the list of expected cells. An expected
cell without a report is a failure. If the user ended the session early, the run has no last line, and is incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports import Cell, CellResult, ReportError, Run, RunWriter, Status, judge, load_run, run_path
from reports.options import Exit
from reports.pages.verdicts import PROFILE
from reports.render.visible import visible
from suites.cells.case import SEED
from suites.cells.grid import no_device, why_skipped
from suites.cells.runnable import require_known_names, require_runnable
from suites.cells.selection import Selection, SelectionError
from suites.checks.drawn.session_choices import SEED_FLAG
from suites.checks.judging.reasons import verdict_lines
from suites.checks.register import cases_by_id, cells_of, check_of_id, checks
from suites.processes.preflight import usage_errors
from suites.processes.preparation import temporary_folder
from suites.processes.resuming import RunLock, continued_header, load_for_resume
from suites.processes.time_limit import Overtime
from suites.timing import run_header
from suites.validate.finding import Finding, cell_of, worst
from suites.validate.time_limit import note_of, read_note

PLUGIN = "kernel-bridge-checks"
"""The name that :class:`ChecksSession` is registered under."""

_CAME_TO_AN_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def _parameters(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")


class ChecksSession:
    """Records a session of checks, as a pytest plugin in the process that collects the reports.

    Without ``--kb-record`` the run file is temporary, and the session is judged in the same way.

    Attributes:
        writer: Writes the run file.
        refusal: Why nothing could be checked, or why the session could not go on, in one line; None if it could.
        left: Checks that an interrupted session did not reach.
    """

    def __init__(self, config: pytest.Config):
        self._config = config
        self._selection = Selection.of(config.option, "kb_")
        with usage_errors():
            require_known_names(self._selection)
        self.refusal: str | None = None
        self.left = 0
        try:
            run = run_header.header(self._selection, f"{PROFILE} {self._selection.profile}")
        except RuntimeError as error:
            raise pytest.UsageError(no_device(self._selection.device, error)) from error
        run.flags[SEED_FLAG] = config.option.kb_seed
        resumed = config.option.kb_resume
        self._lock = RunLock()
        try:
            new = run_path(run.run_id, None if config.option.kb_record else temporary_folder(config))
            self.writer = self._continued(Path(resumed), run) if resumed else RunWriter(new, run)
        except ReportError as error:
            raise pytest.UsageError(str(error)) from error
        self._expected: dict[str, None] = {}
        self._recorded: dict[str, Finding] = {}
        self._phases: dict[str, list[Finding]] = {}
        self._own_failures = 0
        self._session: pytest.Session | None = None
        self._workers: list[Any] = []
        self._notes = temporary_folder(config)
        self._begun = time.monotonic()

    def _continued(self, path: Path, run: Run) -> RunWriter:
        try:
            self._lock.take(path)
            return RunWriter(path, continued_header(str(path), load_for_resume(str(path), path).headers, run))
        except SelectionError as error:
            raise pytest.UsageError(str(error)) from error

    # The expected items: from this process, or from the workers.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Takes the items of this process."""
        self._expect([item.nodeid for item in session.items])
        self._stop_if_refused()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Takes the items of a worker; all have the same."""
        self._expect(ids)
        self._stop_if_refused()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Keeps the process of a worker, and tells it where it may leave notes."""
        node.workerinput["kb_notes"] = self._notes
        process = getattr(getattr(node.gateway, "_io", None), "popen", None)
        if process is not None:
            self._workers.append(process)

    def pytest_keyboard_interrupt(self) -> None:
        """Ends the workers, which ignore Ctrl-C, at once: they may be in the middle of a kernel."""
        for process in self._workers:
            process.kill()

    def _expect(self, ids: Iterable[str]) -> None:
        """Takes the ids of the items that will run, and writes their cells to the begin of the run file."""
        if self._expected or self.refusal:
            return
        cells = cases_by_id(self._selection)
        own = [each for each in ids if check_of_id(each)]
        if not own:
            return
        self._expected = dict.fromkeys(own)
        runs = {each: why_skipped(cells[_parameters(each)]) is None for each in own}
        done = len(self._done)
        total = sum(len(cells_of(check, self._selection)) for check in checks())
        self._write_begin(
            [self._cell(each) for each in own if runs[each]],
            [self._cell(each) for each in own if not runs[each]],
            0 if self._selection.part else max(0, total - done - len(own)),
        )

    @property
    def _done(self) -> list[object]:
        path = self._config.option.kb_done
        return list(msgspec.json.decode(Path(path).read_bytes())) if path else []

    def _write_begin(self, cells: list[Cell], optional: list[Cell], deselected: int) -> None:
        try:
            self.writer.begin(cells, optional, deselected=deselected)
            self._lock.take(self.writer.path)
        except (ReportError, SelectionError) as error:
            self.refusal = str(error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records a check when its last phase has ended. The result is that of the first phase that did not pass."""
        if report.nodeid not in self._expected or report.nodeid in self._recorded:
            return
        self._own_failures += report.failed
        finding = getattr(report, "finding", None)
        if finding is not None:
            self._phases.setdefault(report.nodeid, []).append(msgspec.convert(finding, Finding))
        elif report.failed:  # not the report of a test, but of a worker that died
            self._lost(report.nodeid, str(report.longrepr))
            return
        if report.when == "teardown" and report.nodeid in self._phases:
            self._append(report.nodeid, worst(self._phases.pop(report.nodeid)))

    def _lost(self, nodeid: str, reason: str) -> None:
        over = read_note(note_of(self._notes, nodeid)) or Overtime(Status.CRASHED, reason)
        self._append(nodeid, Finding(cell=self._cell(nodeid), status=over.status, reason=over.reason))

    def _append(self, nodeid: str, finding: Finding) -> None:
        self._recorded[nodeid] = finding
        result = CellResult(
            cell=finding.cell, shapes=finding.shapes, dtypes=finding.dtypes, seed=SEED, status=finding.status,
            reason=finding.reason or (None if finding.status is Status.PASSED else "without a message"),
            accuracy=finding.accuracy,
        )  # fmt: skip
        if self.refusal:
            return
        try:
            self.writer.append(result)
        except ReportError as error:
            self.refusal = str(error)

    def _cell(self, nodeid: str) -> Cell:
        """Returns the cell of a test that left no finding, by its id."""
        check = check_of_id(nodeid)
        assert check is not None
        return cell_of(cases_by_id(self._selection)[_parameters(nodeid)], check)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Ends a session that cannot be recorded any more, on a full disk for example."""
        self._stop_if_refused()

    def _stop_if_refused(self) -> None:
        if self.refusal and self._session is not None:
            raise self._session.Interrupted(self.refusal)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keeps the session, to end it early."""
        self._session = session

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Records cells without a report, judges the run and writes its last line.

        The run of a session that ended early gets no last line, so it is incomplete.
        """
        missing = [nodeid for nodeid in self._expected if nodeid not in self._recorded]
        ended_early = session.shouldstop or session.shouldfail or session.exitstatus not in _CAME_TO_AN_END
        if ended_early or self.refusal:
            self.left = len(missing)
            if self.refusal:
                session.exitstatus = int(Exit.COULD_NOT_RUN)
        else:
            if not self._expected and self._config.option.kb_done:
                self._write_begin([], [], 0)  # the run to continue had no cell left
            for nodeid in missing:
                reason = "no report of this check arrived: its worker process was lost"
                self._append(nodeid, Finding(cell=self._cell(nodeid), status=Status.UNCHECKED, reason=reason))
            self._require_checks()
            self._end(session)
        self._lock.release()
        self.writer.close()

    def _end(self, session: pytest.Session) -> None:
        """Judges the run, writes its last line and sets the exit status of the session."""
        path = self.writer.path
        if not path.exists():
            session.exitstatus = int(Exit.COULD_NOT_RUN)
            return
        try:
            code = Exit.COULD_NOT_RUN if self.refusal else judge(load_run(path), has_ended=True).exit
            self.writer.end(int(code))
        except ReportError as error:
            self.refusal = str(error)
            code = Exit.COULD_NOT_RUN
        # If other tests of the session failed, pytest's own exit status stays.
        if session.testsfailed <= self._own_failures or code is not Exit.FINE:
            session.exitstatus = int(code)

    def _require_checks(self) -> None:
        """Refuses a session in which nothing was checked."""
        if self._config.option.kb_done:
            return
        cells = cases_by_id(self._selection)
        ran = [finding for finding in self._recorded.values() if finding.status is not Status.SKIPPED]
        if not self._expected:
            self.refusal = "no check is left: the arguments of pytest collect none, or deselect all of them."
            return
        try:
            require_runnable(self._selection, [cells[_parameters(nodeid)] for nodeid in self._expected])
            if not ran:
                raise SelectionError(f"no check of {self._selection} ran: all {len(self._expected)} were skipped.")
        except SelectionError as error:
            self.refusal = str(error)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the verdicts of a session that a user started as pytest's; a command prints its own."""
        write = terminalreporter.write_line
        if self.refusal:
            write(visible(f"kernel-bridge: {self.refusal}"), red=True)
        elif self._recorded and self.writer.path.exists() and not self._config.option.kb_record:
            run = load_run(self.writer.path)
            judgement, (passes, failures) = judge(run), verdict_lines(run)
            write("")
            for line in judgement.lines:
                write(visible(line), red=True)
            for line in (*judgement.notes, *passes, *failures):
                write(visible(line))
            seconds, seed = time.monotonic() - self._begun, self._config.option.kb_seed
            write(f"{len(self._recorded)} checks in {seconds:.0f} s; --seed {seed} repeats the random choices")
