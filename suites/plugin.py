"""Gives pytest the options of the checks, and the cells that the tests of this package run on.

The plugin works in sessions that ask for it, with ``-p suites.plugin``, and there on the tests of this package alone:
its options begin with ``--kb-``, and items of other tests pass through untouched. Importing it costs nothing but
pytest; all else is imported when a test of this package is collected.

PYTEST_DONT_REWRITE: it has no asserts, and pytest would warn where another module has imported it before.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HYPOTHESIS_PROFILE = "kernel-bridge"
"""The profile of the tests that draw their inputs; the plugin registers it and leaves the default profile alone."""

EXAMPLES = 10
"""Inputs that are drawn for one check unless ``--kb-examples`` asks for another number."""

_HERE = Path(__file__).parent
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
    group.addoption("--kb-operator", action="append", default=[], help="only this operator; may be repeated")
    group.addoption("--kb-backend", action="append", default=[], help="only this backend; may be repeated")
    group.addoption("--kb-dtype", action="append", default=[], help="only this dtype; may be repeated")
    group.addoption("--kb-size", action="append", default=[], type=int, help="only this size; may be repeated")
    group.addoption(
        "--kb-profile",
        choices=("quick", "full"),
        default="quick",
        help="quick: each kernel in its first dtype (3 minutes on 2 cores); full: all cells",
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
def pytest_configure(config: pytest.Config) -> None:
    """Loads the operators that were asked for, and the session's own plugin."""
    _check_neighbours()
    _leave_no_folder(config)
    if (config.option.kb_operators or config.option.kb_record) and not config.option.kb_bench:
        prepare(config)  # before a file of operators makes arrays
    if config.option.kb_operators:
        from suites.cells import catalogue

        try:
            catalogue.use(config.option.kb_operators)
        except catalogue.CatalogueError as error:
            raise _refusal(str(error)) from error
    is_worker = hasattr(config, "workerinput")
    if config.option.kb_bench:
        _check_names(config)
        from suites.sessions.timing_plugin import PLUGIN, TimingSession

        config.pluginmanager.register(TimingSession(config), PLUGIN)
    elif config.option.kb_record and not is_worker and not config.option.collectonly:
        _check_names(config)
        from suites.sessions.checks_plugin import PLUGIN as CHECKS
        from suites.sessions.checks_plugin import ChecksSession

        config.pluginmanager.register(ChecksSession(config), CHECKS)
    from suites.sessions import expectation

    if expectation.VARIABLE in os.environ and not is_worker:
        config.pluginmanager.register(expectation.Expectation(os.environ[expectation.VARIABLE]), expectation.PLUGIN)


def _refusal(reason: str) -> pytest.UsageError:
    """The error of a session that cannot run; the command that started it hears of it too."""
    with contextlib.suppress(ImportError):  # what it needs may be what is missing
        from suites.sessions.events import Refused, sender

        sender()(Refused(reason))
    return pytest.UsageError(reason)


def _leave_no_folder(config: pytest.Config) -> None:
    """Keeps pytest-benchmark from making its folder ``.benchmarks`` in a session that saves and compares nothing."""
    option = config.option
    uses = ("benchmark_save", "benchmark_autosave", "benchmark_compare")
    if hasattr(option, "benchmark_storage") and not any(getattr(option, name, None) for name in uses):
        option.benchmark_storage = Path(tempfile.mkdtemp(prefix="kernel-bridge-")).as_uri()


def _check_neighbours() -> None:
    """Refuses a session in which modules of the user hide packages of this project, which have common names."""
    for name in ("bridge", "reports"):
        spec = find_spec(name)
        place = Path(spec.origin).parent if spec is not None and spec.origin else None
        if place != _HERE.parent / name:
            raise _refusal(
                f"the package {name!r} of kernel-bridge is hidden by {place or 'a folder'}: pytest imports from the "
                "folder of a conftest.py first. Run kernel-bridge validate instead: its import path is its own."
            )


def _check_names(config: pytest.Config) -> None:
    from suites.cells.selection import Selection, SelectionError

    try:
        Selection.of(config.option, "kb_").check()
    except SelectionError as error:
        raise _refusal(str(error)) from error


_PREPARED = pytest.StashKey[bool]()


def prepare(config: pytest.Config) -> None:
    """Sets up this process for checks, once: several CPU devices, drawn inputs, and no memory of tuned operators."""
    if _PREPARED in config.stash:
        return
    config.stash[_PREPARED] = True
    from suites.sessions.run_header import make_cpu_devices

    os.environ["KERNEL_BRIDGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernel-bridge-")
    make_cpu_devices()
    register_profile(config.option.kb_examples)


def register_profile(examples: int | None = None) -> None:
    """Gives Hypothesis the profile of the checks: few inputs, the same ones each time, unless a number is given."""
    from hypothesis import settings

    settings.register_profile(
        HYPOTHESIS_PROFILE,
        max_examples=examples or EXAMPLES,
        derandomize=not examples,
        database=None,
        deadline=None,
    )


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> None:
    """Prepares the process before the first module of checks is imported."""
    if module_path.parent == _HERE / "checks" and not parent.config.option.kb_bench:
        prepare(parent.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test of this package the cells that the name of its argument stands for."""
    if _HERE not in Path(metafunc.module.__file__ or "").parents:
        return
    from suites.cells import params
    from suites.cells.selection import Selection

    selection = Selection.of(metafunc.config.option, "kb_")
    for name in params.TABLES.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, params.checked(name, selection))
    if "speed_case" in metafunc.fixturenames:
        metafunc.parametrize("speed_case", params.speeds(selection) if metafunc.config.option.kb_bench else [])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks and orders the checks; the items of other tests keep their places."""
    own = {item for item in items if _HERE in item.path.parents}
    if not own or config.option.kb_bench:
        return
    dropped = {item for item in own if "speed_case" in getattr(item, "fixturenames", ())}
    done = _done(config)
    for item in own:
        if _case(item) is None:
            continue
        check = _check(item)
        if check is not None:
            if done and _key(item, check) in done:
                dropped.add(item)
            for mark in _marks(item, check):
                item.add_marker(mark)
        elif config.option.kb_record:
            dropped.add(item)
    if config.option.kb_record:  # a table without a cell leaves an item that says so
        dropped |= {item for item in own if item.name.endswith("[NOTSET]")}
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    # The checks of one kernel follow each other, so that it is compiled once, by one worker.
    places = [place for place, item in enumerate(items) if _case(item) is not None]
    for place, item in zip(places, sorted((items[place] for place in places), key=_kernel), strict=True):
        items[place] = item


def _done(config: pytest.Config) -> set[str]:
    path = config.option.kb_done
    return set(json.loads(Path(path).read_text(encoding="utf-8"))) if path else set()


def _key(item: pytest.Item, check: Any) -> str:
    from suites.sessions.checks_plugin import cell_of, key_text

    return key_text(cell_of(_case(item), check))


def _check(item: pytest.Item) -> Any:
    from suites.checks.register import by_test

    return by_test().get(getattr(item, "originalname", ""))


def _marks(item: pytest.Item, check: Any) -> list[pytest.MarkDecorator]:
    from suites.cells.params import marks_of_check

    return marks_of_check(_case(item), check.name)


def _kernel(item: pytest.Item) -> tuple[str, str, str]:
    case = _case(item)
    return case.operator.name, case.backend.id, case.dtype


def _case(item: pytest.Item) -> Any:
    """The cell that a test is about, None where it is about something else."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or _HERE not in item.path.parents:
        return None
    from suites.cells.params import Case

    return next((value for value in callspec.params.values() if isinstance(value, Case)), None)


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Any:
    """Where a test takes its verdicts, a :class:`suites.judging.evidence.Evidence`."""
    from suites.judging.evidence import Evidence

    request.node.stash[_EVIDENCE] = Evidence()
    return request.node.stash[_EVIDENCE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives the report of a check what is to be recorded of it, see :class:`suites.sessions.checks_plugin.Finding`."""
    report = yield
    decides = report.when == "call" or not report.passed
    if decides and item.config.option.kb_record and _case(item) is not None:
        from suites.sessions.checks_plugin import finding

        # An attribute that a report does not have by itself comes along from a worker.
        report.finding = finding(_case(item), item.stash.get(_EVIDENCE, None), call.excinfo, report)  # type: ignore[attr-defined]
    return report
