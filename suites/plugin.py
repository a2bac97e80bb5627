"""Adds the options of the checks to pytest, and parametrizes the tests of this package by their cells.

A session loads the plugin with ``-p suites.plugin``. Its options begin with ``--kb-``. Items of other tests pass
through unchanged. Importing the plugin imports little more than pytest; everything else is imported when a test of
this package is collected.

PYTEST_DONT_REWRITE: the plugin has no asserts, and pytest would warn if another module imported it first.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from suites.checks.drawn import session_choices
from suites.processes.own_packages import hidden_package
from suites.processes.preparation import prepare

_CHECKS = Path(__file__).parent / "checks"
_EVIDENCE = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options, each with the prefix ``--kb-``."""
    group = parser.getgroup("kernel-bridge")
    group.addoption("--kb-device", choices=("cpu", "cuda"), default="cpu", help="where the cells run")
    group.addoption(
        "--kb-operators",
        action="append",
        default=[],
        metavar="FILE",
        help="test the operators of this Python file or module instead of the built-in ones; may be repeated",
    )
    for name, kind in (("operator", str), ("backend", str), ("dtype", str), ("size", int)):
        text = f"only this {name}; may be repeated"
        group.addoption(f"--kb-{name}", action="append", default=[], type=kind, help=text)
    group.addoption("--kb-part", type=_part, metavar="K/N", default=None, help="only the K-th of N even parts of cells")
    group.addoption(
        "--kb-profile",
        choices=("quick", "full"),
        default=None,
        help="quick: each kernel in its first dtype (4 minutes on 2 cores); full: all cells "
        "(default: full with --kb-operators, else quick)",
    )
    group.addoption(
        "--kb-seed",
        type=int,
        default=None,
        metavar="N",
        help="repeats the random choices of the session with this seed (default: a new one)",
    )
    group.addoption("--kb-record", action="store_true", help="record the checks, and end with their grid")
    group.addoption("--kb-resume", metavar="RUN", default=None, help="continue this recorded run")
    group.addoption("--kb-done", metavar="FILE", default=None, help="leave out the cells whose keys this file lists")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Hides the stack dump of a crashed worker in a recorded session."""
    option = early_config.known_args_namespace
    is_verbose = getattr(option, "tbstyle", "no") in ("long", "short")
    if option.kb_record and not is_verbose and "PYTEST_XDIST_WORKER" in os.environ:
        # A cell that crashes or hangs has a line in the table. The dump of its stacks is for -v.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Loads the operators of the options, and registers the plugin of a recorded session."""
    if (foreign := hidden_package()) is not None:
        raise pytest.UsageError(f"{foreign} Or run kernel-bridge validate, whose import path is its own.")
    is_worker = hasattr(config, "workerinput")
    if config.option.kb_profile is None:
        config.option.kb_profile = "full" if config.option.kb_operators else "quick"
    if _is_judged(config.option) and is_worker:
        # Ctrl-C and the SIGTERM of `timeout` reach all processes of a terminal. In native code they can corrupt memory,
        # and a worker that ends before the main process looks crashed. So only the main process ends its workers.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if config.option.kb_seed is None:
        config.option.kb_seed = secrets.randbelow(session_choices.MOST_SEED)  # workers get it with the other options
    session_choices.use(config.option.kb_seed, config.option.kb_profile)
    if _is_judged(config.option):
        prepare(config)  # before a file of operators makes arrays
    if config.option.kb_operators:
        from suites.processes.preflight import use_operators

        use_operators(config.option.kb_operators)
    if _is_judged(config.option) and not is_worker and not config.option.collectonly:
        from suites.validate import checks_plugin

        config.pluginmanager.register(checks_plugin.ChecksSession(config), checks_plugin.PLUGIN)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> None:
    """Prepares the process before the first file of checks is imported."""
    if module_path.parent == _CHECKS:
        prepare(parent.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes a check by the cells of its table."""
    if metafunc.definition.path.parent == _CHECKS:
        from suites.validate.check_items import give_cells

        give_cells(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks and orders the checks; the items of other tests keep their places."""
    if not any(item.path.parent == _CHECKS for item in items):
        return
    from suites.validate.check_items import arrange

    done = Path(config.option.kb_done) if config.option.kb_done else None
    dropped = arrange(items, done=done, is_recorded=_is_judged(config.option), part=config.option.kb_part)
    if dropped:
        config.hook.pytest_deselected(items=dropped)


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Any:
    """Collects the verdicts of one check; a :class:`suites.checks.judging.evidence.Evidence`."""
    from suites.checks.judging.evidence import Evidence

    request.node.stash[_EVIDENCE] = Evidence()
    return request.node.stash[_EVIDENCE]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Ends a check that judged no result as UNCHECKED, and adds the cause to the verdict of a check that failed."""
    if "case" not in pyfuncitem.fixturenames or pyfuncitem.path.parent != _CHECKS:
        return (yield)
    from suites.checks.judging.evidence import CheckFailed, Evidence
    from suites.checks.reruns import with_cause

    try:
        result = yield
        pyfuncitem.stash.get(_EVIDENCE, Evidence()).finish()
    except CheckFailed as failed:
        case: Any = pyfuncitem.funcargs["case"]
        failed.verdict = with_cause(case, failed.verdict)
        raise
    return result


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: Any, settings: Any) -> bool | None:
    """Limits the time of a check in place of pytest-timeout; a worker of a recorded session notes why it ended one."""
    if item.path.parent != _CHECKS:
        return None
    folder = getattr(item.config, "workerinput", {}).get("kb_notes")
    from pytest_timeout import timeout_timer  # type: ignore[import-untyped]

    from suites.validate.time_limit import note_of, watch

    def end() -> None:
        try:
            timeout_timer(item, settings)  # prints where the threads are, if there is a terminal
        finally:
            os._exit(1)

    note = None if folder is None else note_of(folder, item.nodeid)
    item.cancel_timeout = watch(settings.timeout, note, end)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Frees the memory that the checks of an operator took, after the last of them."""
    if item.path.parent == _CHECKS and nextitem is not None:
        from suites.validate.check_items import case_of
        from suites.validate.memory_limit import free_memory

        case, following = case_of(item), case_of(nextitem)
        if case is not None and (following is None or following.operator is not case.operator):
            free_memory()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds a :class:`suites.validate.finding.Finding` to the report of a check that is recorded."""
    report = yield
    decides = report.when == "call" or not report.passed
    if decides and _is_judged(item.config.option) and item.path.parent == _CHECKS:
        from suites.validate.check_items import case_of
        from suites.validate.finding import finding

        case = case_of(item)
        if case is not None:
            # xdist also sends additional attributes of a report from its workers.
            report.finding = finding(case, item.stash.get(_EVIDENCE, None), call.excinfo, report)  # type: ignore[attr-defined]
    return report


def _part(text: str) -> tuple[int, int]:
    """Converts the value of ``--kb-part``. The import is late: a package of the user may hide ``reports``."""
    from reports.options import part

    return part(text)


def _is_judged(option: Any) -> bool:
    """Tells whether the checks of a session are judged as ``validate`` judges them."""
    return bool(option.kb_record or option.kb_operators)
