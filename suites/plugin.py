"""Gives pytest the options of the checks, and gives the tests of this package the cells that they run on.

A session loads the plugin with ``-p suites.plugin``. Its options begin with ``--kb-``. Items of other tests pass
through unchanged. Importing the plugin imports little more than pytest; everything else is imported when a test of
this package is collected.

PYTEST_DONT_REWRITE: the plugin has no asserts, and pytest would warn if another module imported it first.
"""

from __future__ import annotations

import atexit
import gc
import os
import secrets
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import suites.bench.two_clocks  # noqa: F401  first of all: a file of operators may replace the functions of time
from suites.bench.visible_gpus import begin_with_own_gpu
from suites.checks.drawn import depth, session_seed
from suites.checks.drawn.drawn_profile import EXAMPLES
from suites.checks.folders import folders
from suites.sessions.preparation import leave_no_folder, prepare, require_own_packages

_HERE = Path(__file__).parent
_EVIDENCE = pytest.StashKey[Any]()
_HAS_GPU = pytest.StashKey[bool]()


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
    group.addoption("--kb-operator", action="append", default=[], help="only this operator; may be repeated")
    group.addoption("--kb-backend", action="append", default=[], help="only this backend; may be repeated")
    group.addoption("--kb-dtype", action="append", default=[], help="only this dtype; may be repeated")
    group.addoption("--kb-size", action="append", default=[], type=int, help="only this size; may be repeated")
    group.addoption("--kb-mode", action="append", default=[], help="with --kb-bench: forward, or forward+backward")
    group.addoption("--kb-peers", action="store_true", help="with --kb-bench: other libraries beside the kernels")
    group.addoption("--kb-keep-memory", action="store_true", help="with --kb-bench: the process keeps freed memory")
    group.addoption(
        "--kb-profile",
        choices=("quick", "full", "deep"),
        default=None,
        help="quick: each kernel in its first dtype (4 minutes on 2 cores); full: all cells; deep: also all dtypes and "
        "sizes of each check, and many more drawn inputs (default: full with --kb-operators, else quick)",
    )
    group.addoption(
        "--kb-seed",
        type=int,
        default=None,
        metavar="N",
        help="repeats the random choices of the session with this seed (default: a new one)",
    )
    group.addoption(
        "--kb-examples",
        type=int,
        default=None,
        metavar="N",
        help=f"inputs drawn for a check, other ones each time (default: {EXAMPLES}, the same ones each time)",
    )
    group.addoption("--kb-record", action="store_true", help="record the checks, and end with their grid")
    group.addoption("--kb-summary", metavar="FILE", default=None, help="append the grid as Markdown (with --kb-record)")
    group.addoption("--kb-bench", action="store_true", help="time cells and record them (suites/bench/test_speed.py)")
    group.addoption("--kb-resume", metavar="RUN", default=None, help="continue this recorded run")
    group.addoption("--kb-done", metavar="FILE", default=None, help="leave out the cells whose keys this file lists")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Prepares JAX for a session of checks before a ``conftest.py`` of the user is imported."""
    _choose_gpu(early_config, early_config.known_args_namespace)
    if _is_judged(early_config.known_args_namespace):
        from suites.sessions.pytest_line import prepare_early

        prepare_early()


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Makes a session for all checks work as ``kernel-bridge validate`` does, before other plugins read options."""
    if _is_judged(config.option):
        from suites.sessions.pytest_line import work_like_validate

        work_like_validate(config)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Loads the operators that were asked for, and the session's own plugin."""
    _collect_no_garbage_until_tests_run(config)
    require_own_packages()
    _choose_gpu(config, config.option)
    leave_no_folder(config)
    is_worker = hasattr(config, "workerinput")
    if config.option.kb_profile is None:
        config.option.kb_profile = "full" if config.option.kb_operators else "quick"
    if _is_judged(config.option):
        from suites.sessions.preflight import require_variables
        from suites.sessions.pytest_line import leave_warnings

        require_variables()
        leave_warnings(config)
        if is_worker:
            # Ctrl-C reaches all processes of a terminal. In the middle of native code it can corrupt memory; the main
            # process ends its workers.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    if config.option.kb_seed is None:
        config.option.kb_seed = secrets.randbelow(session_seed.MOST)  # workers get it with the other options
    session_seed.use(config.option.kb_seed)
    depth.use(config.option.kb_profile)
    if (config.option.kb_operators or config.option.kb_record) and not config.option.kb_bench:
        prepare(config)  # before a file of operators makes arrays
    if config.option.kb_operators:
        from suites.sessions.preflight import use_operators

        use_operators(config)
    if config.option.kb_bench:
        from suites.sessions import timing_plugin

        config.pluginmanager.register(timing_plugin.TimingSession(config), timing_plugin.PLUGIN)
    elif _is_judged(config.option) and not is_worker and not config.option.collectonly:
        from suites.sessions import checks_plugin

        config.pluginmanager.register(checks_plugin.ChecksSession(config), checks_plugin.PLUGIN)
    from suites.sessions import expectation

    if expectation.VARIABLE in os.environ and not is_worker:
        config.pluginmanager.register(expectation.Expectation(os.environ[expectation.VARIABLE]), expectation.PLUGIN)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> None:
    """Prepares the process before the first file of checks is imported."""
    if module_path.parent in folders() and not parent.config.option.kb_bench:
        prepare(parent.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a check the cells of its table, and the test of speed the cells to time."""
    is_check = metafunc.definition.path.parent in folders()
    is_timing = "speed_case" in metafunc.fixturenames and _HERE in metafunc.definition.path.parents
    if is_check or is_timing:
        from suites.sessions.check_items import give_cells, give_timed_cells

        (give_cells if is_check else give_timed_cells)(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks and orders the checks; the items of other tests keep their places."""
    own = set(folders())
    timed = [item for item in items if _HERE in item.path.parents and "speed_case" in getattr(item, "fixturenames", ())]
    if config.option.kb_bench or not (timed or any(item.path.parent in own for item in items)):
        return
    from suites.sessions.check_items import arrange

    done = Path(config.option.kb_done) if config.option.kb_done else None
    dropped = arrange(items, done=done, is_recorded=_is_judged(config.option))
    items[:] = [item for item in items if item not in set(timed)]
    if dropped or timed:
        config.hook.pytest_deselected(items=[*dropped, *timed])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Collects garbage from now on. The session of a command first freezes the objects that it has: they stay."""
    if _is_judged(session.config.option):
        gc.freeze()
    gc.enable()
    return (yield)


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Any:
    """Collects the verdicts of one check; a :class:`suites.checks.judging.evidence.Evidence`."""
    from suites.checks.judging.evidence import Evidence

    request.node.stash[_EVIDENCE] = Evidence()
    return request.node.stash[_EVIDENCE]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Ends a check that judged no result as UNCHECKED: it would pass whatever the kernel does."""
    result = yield
    if "case" in pyfuncitem.fixturenames and pyfuncitem.path.parent in folders():
        from suites.checks.judging.evidence import Evidence

        pyfuncitem.stash.get(_EVIDENCE, Evidence()).finish()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds a :class:`suites.sessions.finding.Finding` to the report of a check that is recorded."""
    report = yield
    decides = report.when == "call" or not report.passed
    if decides and _is_judged(item.config.option) and item.path.parent in folders():
        from suites.sessions.check_items import case_of
        from suites.sessions.finding import finding

        case = case_of(item)
        if case is not None:
            # xdist also sends additional attributes of a report from its workers.
            report.finding = finding(case, item.stash.get(_EVIDENCE, None), call.excinfo, report)  # type: ignore[attr-defined]
    return report


def _collect_no_garbage_until_tests_run(config: pytest.Config) -> None:
    """Imports and collection make objects that stay: to look for garbage among them takes a fifth of the start.

    At the end of the process it would take as long again.
    """
    atexit.register(gc.freeze)
    if gc.isenabled():
        gc.disable()
        config.add_cleanup(gc.enable)


def _choose_gpu(config: pytest.Config, option: Any) -> None:
    """Lets each worker process of a session on GPUs begin with another GPU, once, and before JAX starts CUDA."""
    if option.kb_device == "cuda" and _HAS_GPU not in config.stash and "jax" not in sys.modules:
        config.stash[_HAS_GPU] = True
        begin_with_own_gpu()


def _is_judged(option: Any) -> bool:
    """Tells whether the checks of a session are judged as ``validate`` judges them."""
    return bool(option.kb_record or option.kb_operators) and not option.kb_bench
