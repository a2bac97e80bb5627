"""A validation session: the reports of checks in, one record per cell as it ends, a grid at the end.

Tests may run in worker processes (pytest-xdist), so that a cell which brings its process down does not end the session.
The process that collects their reports is the only one that writes. What was to run and left no report is a failure.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports import Accuracy, Cell, RunWriter, Status, read_run, run_path
from reports.frame import to_frame
from reports.markdown import render as as_markdown
from reports.terminal import render as as_text
from reports.validation import PROFILE, validation_tables
from suites import checks, params
from suites.evidence import Evidence, outcome
from suites.params import SEED, Case, input_types

PLUGIN = "kernel-bridge-validation"
"""The name that :class:`ValidationSession` is registered under."""

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


def _parameters(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")


class ValidationSession:
    """The pytest plugin of a session with ``--record``, in the process that reports come together in."""

    def __init__(self, config: pytest.Config):
        from suites import environment

        self._config = config
        self._platform = str(config.getoption("--device"))
        try:
            run = environment.header(f"{PROFILE} {config.getoption('--cells')}", self._platform, False, None)
        except RuntimeError as error:
            raise pytest.UsageError(
                f"--device {self._platform}: JAX finds no such device here ({error}). Choose another one, or install "
                "JAX for it: the extras cuda12 and cuda13 do."
            ) from error
        self.writer = RunWriter(run_path(run.run_id), run)
        if config.option.xmlpath is None:  # --junitxml
            config.option.xmlpath = str(self.writer.path.with_suffix(".xml"))
        self._expected: dict[str, None] = {}
        self._recorded: set[str] = set()
        self._started: dict[str, float] = {}
        self._begun = time.monotonic()

    # What is to run: this process's own items, or those of the workers.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._expect(ids)

    def _expect(self, ids: list[str]) -> None:
        cells = params.by_id(self._platform)
        self._expected |= dict.fromkeys(each for each in ids if check_of(each) and _parameters(each) in cells)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
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
        self._recorded.add(nodeid)
        # A reason that ends a test may be a page; the record keeps what tells it apart.
        self.writer.append(
            cell=found.cell, shapes=found.shapes, dtypes=found.dtypes, seed=SEED, status=found.status,
            reason=found.reason or None if found.status is Status.PASSED else (found.reason or "without a message"),
            accuracy=found.accuracy,
        )  # fmt: skip

    def _cell(self, nodeid: str) -> Cell:
        """The cell of a test that left no finding, by its id."""
        check = check_of(nodeid)
        assert check is not None
        return cell_of(params.by_id(self._platform)[_parameters(nodeid)], check)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Records what was to run and did not, and makes the session a failed one because of it."""
        stopped = session.shouldstop or session.shouldfail or "the session ended before it"
        for nodeid in self._expected.keys() - self._recorded:
            self._append(
                nodeid, Finding(cell=self._cell(nodeid), status=Status.CRASHED, reason=f"did not run: {stopped}")
            )
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.writer.close()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.writer.path.exists() or not self._recorded:
            return
        order = [check.name for check in checks.CHECKS]
        tables = validation_tables(to_frame(read_run(self.writer.path)), order)
        write = terminalreporter.write_line
        write("")
        write(as_text(tables, width=max(100, terminalreporter._tw.fullwidth), color=terminalreporter.hasmarkup))
        write(f"{len(self._recorded)} cells in {time.monotonic() - self._begun:.0f} s, recorded in {self.writer.path};")
        write("show them again: python -m reports show")
        summary = self._config.getoption("--summary") or os.environ.get(SUMMARY_VARIABLE)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as page:
                page.write(as_markdown(tables))
