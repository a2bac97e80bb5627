"""Records each check as it ends: the half of ``validate`` that runs inside pytest.

Tests may run in worker processes (pytest-xdist), so that a cell which brings its process down does not end the session.
The process that collects their reports is the only one that writes. A cell that was expected and left no report is a
failure, unless somebody ended the session before.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports import Accuracy, Cell, CellResult, ReportError, Run, RunWriter, Status, read_run, run_path
from reports.pages.compare import header_differences
from reports.pages.verdicts import PROFILE, validation_tables
from reports.render.markdown import render as as_markdown
from reports.render.terminal import render as as_text
from suites.backends.backend import Backend
from suites.cells import params
from suites.cells.params import SEED, Case, input_types
from suites.cells.selection import Selection, SelectionError
from suites.checks import register as checks
from suites.judging.evidence import Evidence, outcome

PLUGIN = "kernel-bridge-checks"
"""The name that :class:`ChecksSession` is registered under."""

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where a CI job on GitHub takes its summary from; ``--summary`` takes precedence."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a check; the report of the test carries it, as built-in types, under ``finding``."""

    cell: Cell
    status: Status
    reason: str | None
    accuracy: Accuracy | None = None
    shapes: list[list[int]] = []
    dtypes: list[str] = []


def finding(
    case: Case,
    evidence: Evidence | None,
    excinfo: pytest.ExceptionInfo[BaseException] | None,
    report: pytest.TestReport,
) -> Any:
    """The :class:`Finding` of one phase of a test, as built-in types; None where the test is no check."""
    check = check_of(report.nodeid)
    if check is None:
        return None
    status, reason = outcome(excinfo)
    known = getattr(report, "wasxfail", None)
    if report.skipped and known is not None:
        status, reason = Status.SKIPPED, f"known limitation: {known}"
    elif report.failed and status is Status.PASSED:
        status, reason = Status.RUNTIME_ERROR, str(report.longrepr)  # a strict xfail that passed
    shapes, dtypes = input_types(case.inputs()) if status is not Status.SKIPPED and case.has_inputs else ([], [])
    found = Finding(
        cell=cell_of(case, check), status=status, reason=reason, shapes=shapes, dtypes=dtypes,
        accuracy=evidence.accuracy if evidence else None,
    )  # fmt: skip
    return msgspec.to_builtins(found)


def check_of(nodeid: str) -> checks.Check | None:
    """The check that a test makes, None if it makes none."""
    return checks.by_test().get(nodeid.partition("[")[0].rpartition("::")[2])


def cell_of(case: Case, check: checks.Check) -> Cell:
    """The cell of one check of a case."""
    variant = {} if case.variant is None else {"case": case.variant}
    return msgspec.structs.replace(case.cell, mode=check.name, params=variant)


def key_text(cell: Cell) -> str:
    """The key of a cell as text, equal for equal cells."""
    return json.dumps(cell.key)


def _parameters(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")


class ChecksSession:
    """The pytest plugin of a session with ``--kb-record``, in the process that reports come together in.

    Attributes:
        writer: Writes the run file.
        refusal: Why nothing could be checked, in one line.
        left: Checks that an interrupted session did not reach.
    """

    def __init__(self, config: pytest.Config):
        from suites.sessions import run_header as environment

        self._config = config
        self._selection = Selection.of(config.option, "kb_")
        self.refusal: str | None = None
        self.left = 0
        try:
            run = environment.header(self._selection, f"{PROFILE} {self._selection.profile}", False)
        except RuntimeError as error:
            raise pytest.UsageError(params.no_device(self._selection.device, error)) from error
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
        records = read_run(path)
        old = records[0].run if records else run
        different = header_differences(old, run)
        for name, then, now in (
            ("profile", old.profile, run.profile),
            ("commit", old.source.commit, run.source.commit),
            ("versions", old.versions, run.versions),
        ):
            if then != now:
                different.append(f"{name}: then {then!r}, now {now!r}")
        if different:
            raise pytest.UsageError(
                f"--resume {path}: that run was made elsewhere or otherwise: {'; '.join(different)}."
            )
        same = {name: getattr(old, name) for name in ("run_id", "started")}
        return RunWriter(path, msgspec.structs.replace(run, **same))

    # What is to run: this process's own items, or those of the workers.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Takes the items of this process."""
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Takes the items of a worker; all have the same."""
        self._expect(ids)

    def _expect(self, ids: list[str]) -> None:
        cells = params.by_id(self._selection)
        self._expected |= dict.fromkeys(each for each in ids if check_of(each) and _parameters(each) in cells)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Notes when a check began."""
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the phase that decides: the call, or what kept it from being made."""
        if report.nodeid not in self._expected or report.nodeid in self._recorded:
            return
        found = getattr(report, "finding", None)
        if found is not None:
            self._append(report.nodeid, msgspec.convert(found, Finding))
        elif report.failed:  # not a report of a test: that of a worker which is no more
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
        # A reason that ends a test may be a page; the record keeps what tells it apart.
        result = CellResult(
            cell=found.cell, shapes=found.shapes, dtypes=found.dtypes, seed=SEED, status=found.status,
            reason=found.reason or None if found.status is Status.PASSED else (found.reason or "without a message"),
            accuracy=found.accuracy,
        )  # fmt: skip
        self.writer.append(result)

    def _cell(self, nodeid: str) -> Cell:
        """The cell of a test that left no finding, by its id."""
        check = check_of(nodeid)
        assert check is not None
        return cell_of(params.by_id(self._selection)[_parameters(nodeid)], check)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Records cells that were lost, and fails the session because of them; one that was ended early has none."""
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
        cells = params.by_id(self._selection)
        made = {found.cell.key for found in self._recorded.values() if found.status is not Status.SKIPPED}
        if not self._expected and not self._config.option.kb_done:
            self.refusal = "no check is left: the arguments after -- deselect all of them."
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            return
        try:
            if not self._config.option.kb_done:
                params.require_runnable(self._selection, [cells[_parameters(nodeid)] for nodeid in self._expected])
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
        order = [check.name for check in checks.CHECKS]
        records = read_run(self.writer.path)
        write = terminalreporter.write_line
        write("")
        for line in self._failures():
            write(line, red=True)
        tables = validation_tables(records, order, failures=False)
        write(as_text(tables, width=terminalreporter._tw.fullwidth, color=terminalreporter.hasmarkup))
        seconds = time.monotonic() - self._begun
        write(f"{len(self._recorded)} cells in {seconds:.0f} s, recorded in {self.writer.path}")
        summary = self._config.option.kb_summary or os.environ.get(SUMMARY_VARIABLE)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as page:
                page.write(as_markdown(validation_tables(records, order)))

    def _failures(self) -> list[str]:
        """A line for each failed check, at most :data:`FAILURES_SHOWN`; hints where the reference fails as well."""
        failed = _varied([found for found in self._recorded.values() if found.status.failed])
        lines = [
            f"{found.cell.operator} {found.cell.backend} {found.cell.dtype}: {found.cell.mode}"
            f"{''.join(f' {value}' for value in found.cell.params.values())}: {found.status}: {_line(found.reason)}"
            for found in failed[:FAILURES_SHOWN]
        ]
        if len(failed) > FAILURES_SHOWN:
            lines.append(f"... and {len(failed) - FAILURES_SHOWN} more; the records have them all")
        if failed:
            cell = failed[0].cell
            words = ["kernel-bridge validate", *self._selection.sources, f"--operator {cell.operator}"]
            words += [f"--backend {cell.backend} --dtype {cell.dtype} -v"]
            lines.append(f"repeat one with source and traceback: {' '.join(words)}")
        doubtful = sorted({found.cell.operator for found in failed if found.cell.backend == Backend.JNP.id})
        lines += [
            f"{operator}: jnp fails too. The reference or its error bound may be wrong; see {BOUNDS_PAGE}"
            for operator in doubtful
        ]
        return [*lines, ""] if lines else []


FAILURES_SHOWN = 30
BOUNDS_PAGE = "https://github.com/kernel-bridge/kernel-bridge/blob/main/docs/bounds.md"
_LINE = 400


def _varied(failed: list[Finding]) -> list[Finding]:
    """The findings in such an order that the first ones are of as many kernels and kinds of failure as there are."""
    seen: Counter[tuple[str, str, Status]] = Counter()
    ranks = []
    for found in failed:
        kind = (found.cell.operator, found.cell.backend, found.status)
        ranks.append(seen[kind])
        seen[kind] += 1
    return [found for _, found in sorted(zip(ranks, failed, strict=True), key=lambda pair: pair[0])]


def _line(reason: str | None) -> str:
    text = " ".join((reason or "without a message").split())
    return text if len(text) <= _LINE else text[:_LINE] + "..."
