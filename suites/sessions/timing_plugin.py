"""Times the cells of a pytest session: the part of ``bench`` that runs inside pytest.

If a command started the session, it conducts it: it says which cells to compile and when to time them, and it writes
the records (:mod:`suites.sessions.panel`). In a session that somebody started with ``pytest --kb-bench``, this process
does everything itself, and prints the table at the end. The tests then hand the samples to pytest-benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import pytest

from reports import (
    Cell,
    CellResult,
    ReportError,
    Run,
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
from reports.records.cell import CellKey
from suites.bench import run_header
from suites.bench.freed_memory import keep_freed_pages
from suites.bench.timed_process import TimedProcess
from suites.cells import catalogue
from suites.cells.case import SEED, Case
from suites.cells.marks import no_device, why_skipped
from suites.cells.runnable import require_device, require_runnable
from suites.cells.selection import Selection, SelectionError
from suites.sessions.contests import contests
from suites.sessions.events import PROTOCOL, Conductor, Opened, Prepare, Prepared, Ready, Started, TurnEnded
from suites.sessions.merging import merged
from suites.sessions.preflight import require_names
from suites.sessions.refusal import refusal
from suites.sessions.resuming import continued_header, opened
from suites.sessions.timing_budget import budget

_CAME_TO_AN_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)

PLUGIN = "kernel-bridge-timing"
"""The name that :class:`TimingSession` is registered under."""


class TimingSession:
    """Times a session with ``--kb-bench``, as a pytest plugin."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._selection = Selection.of(config.option, "kb_")
        require_names(self._selection)
        self._keeps_memory = bool(config.option.kb_keep_memory) and keep_freed_pages()
        if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
            raise refusal(
                "--kb-bench was given together with xdist's -n: workers would time each other, and pytest-benchmark "
                "switches itself off. Time on its own: kernel-bridge bench, or add -n 0."
            )
        if hasattr(config.option, "benchmark_quiet"):
            config.option.benchmark_quiet = True  # the table at the end is ours
        self._conductor = Conductor.of_environment()
        self._writer: RunWriter | None = None
        self._cases: dict[CellKey, Case] = {}
        self._results: dict[CellKey, CellResult] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drops the cells that cannot run, and those that a resumed run has; opens the run."""
        timed = [item for item in items if "speed_case" in getattr(item, "fixturenames", ())]
        cells = {item: case for item in timed if (case := _case(item)) is not None}
        try:
            require_device(self._selection)
            catalogue.check(self._selection.device)
            require_runnable(self._selection, cells.values())
        except SelectionError as error:
            raise refusal(str(error)) from error
        skipped = {item: reason for item, case in cells.items() if (reason := why_skipped(case))}
        left_out = [
            CellResult(cell=cells[item].cell, shapes=[], dtypes=[], seed=SEED, status=Status.SKIPPED, reason=reason)
            for item, reason in skipped.items()
        ]
        run = self._header()
        done = self._open(run) if self._conductor is None else set()
        runs = [item for item, case in cells.items() if item not in skipped and case.cell.key not in done]
        self._cases = {cells[item].cell.key: cells[item] for item in runs}
        announced = [case.cell for case in self._cases.values()]
        if self._conductor is not None:
            self._conductor.send(Opened(PROTOCOL, run, announced, left_out))
        else:
            self._begin(announced, [result for result in left_out if result.cell.key not in done])
        dropped = {*timed} - set(runs)
        self._config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Times all cells; afterwards each test hands its samples to pytest-benchmark."""
        if not session.config.option.collectonly:
            try:
                self._serve() if self._conductor is not None else self._time_alone()
            except ReportError as error:
                raise refusal(str(error)) from error
        return (yield)

    @pytest.fixture(scope="session")
    def timed_result(self) -> Callable[[Case], CellResult]:
        """Returns the function that gives the result of a case."""

        def result(case: Case) -> CellResult:
            found = self._results.get(case.cell.key)
            if found is None:
                pytest.skip("another process brought it down, or the session was ended")
            return found

        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the last line of a run that came to its end, and closes the file."""
        if self._writer is None:
            return
        if not (session.shouldstop or session.shouldfail) and session.exitstatus in _CAME_TO_AN_END:
            try:
                self._writer.end(int(judge(load_run(self._writer.path), has_ended=True).exit))
            except ReportError:
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

    def _header(self) -> Run:
        try:
            return run_header.header(self._selection, self._selection.profile, keeps_pages=self._keeps_memory)
        except RuntimeError as error:
            raise refusal(no_device(self._selection.device, error)) from error

    def _open(self, run: Run) -> set[CellKey]:
        """Opens the run file of a session without a conductor; returns the cells that it holds already."""
        name = self._config.option.kb_resume
        try:
            if name is None:
                self._writer = RunWriter(run_path(run.run_id), run)
                return set()
            path = find_run(name)
            before = opened(name, path)
            self._writer = RunWriter(path, continued_header(name, before.headers, run))
            return completed(before.records)
        except (ReportError, SelectionError) as error:
            raise refusal(str(error) if name is None else f"--resume {name}: {error}") from error

    def _begin(self, cells: Sequence[Cell], skipped: Sequence[CellResult]) -> None:
        assert self._writer is not None
        try:
            self._writer.begin(cells, [result.cell for result in skipped])
            for result in skipped:
                self._writer.append(result)
        except ReportError as error:
            raise refusal(str(error)) from error

    def _serve(self) -> None:
        """Does what the conductor orders, to the last order."""
        conductor = self._conductor
        assert conductor is not None
        order: list[CellKey] = []

        def on_cell(cell: Cell) -> None:
            if order:
                conductor.place.set(order.index(cell.key))
            else:
                conductor.send(Started(cell))

        process = TimedProcess(self._cases, on_cell, energy=self._selection.profile == "full")
        for each in conductor.orders():
            if isinstance(each, Prepare):
                order = []
                judged = {cell.key for cell in each.judged}
                for cell in each.cells:
                    conductor.send(Prepared(process.prepare(cell.key, judged=cell.key in judged)))
                process.settle()
                conductor.send(Ready())
            else:
                order = [cell.key for cell in each.cells]
                found = process.turn(order, each.seconds, last=each.last, measures=each.measures)
                self._results |= {result.cell.key: merged(None, [result]) for result in found}
                conductor.send(TurnEnded(found))

    def _time_alone(self) -> None:
        """Times all cells in this process, which writes the records."""
        assert self._writer is not None
        process = TimedProcess(self._cases, lambda cell: None, energy=self._selection.profile == "full")
        plan = budget(self._selection)
        for contest in contests([case.cell for case in self._cases.values()]):
            keys = [cell.key for cell in contest]
            for key in keys:
                process.prepare(key, judged=True)
            process.settle()
            for turn in range(plan.turns):
                last = turn == plan.turns - 1
                found = process.turn(keys, plan.seconds, last=last, measures=last)
            for result in (merged(None, [each]) for each in found):
                self._results[result.cell.key] = result
                self._writer.append(result)


def _case(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = callspec and callspec.params.get("speed_case")
    return case if isinstance(case, Case) else None
