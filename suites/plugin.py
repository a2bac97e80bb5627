"""The pytest plugin: its options, the parameters that tests ask for by the names of their arguments, what is recorded.

It is loaded wherever this package is installed, so nothing here costs other sessions anything: what is heavy is
imported when a test of this package is collected.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

CPU_DEVICES = 8
"""How many devices JAX makes of the CPU, for the tests of sharding; where cells are timed it has one, as for users."""

_HERE = Path(__file__).parent
_EVIDENCE = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-bridge")
    group.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where the cells of the suites run")
    group.addoption(
        "--operators",
        action="append",
        default=[],
        metavar="FILE",
        help="test the operators of this Python file or module instead of the built-in ones; may be repeated",
    )
    group.addoption("--operator", action="append", default=[], help="only this operator; may be repeated")
    group.addoption("--backend", action="append", default=[], help="only this backend; may be repeated")
    group.addoption(
        "--cells",
        choices=("quick", "full"),
        default="quick",
        help="quick: every check, of each kernel in its first dtype (3 minutes on 2 cores); full: all cells",
    )
    group.addoption("--record", action="store_true", help="record the checks, and end with their grid")
    group.addoption(
        "--summary", metavar="FILE", default=None, help="append the grid as Markdown to this file (with --record)"
    )
    group.addoption(
        "--profile",
        choices=("quick", "full"),
        default=None,
        help="time the cells of this profile (suites/test_speed.py)",
    )
    group.addoption(
        "--resume", metavar="RUN", default=None, help="continue this timed run: a path, a run id, or latest"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "speed: times cells and records them; runs only with --profile")
    if config.getoption("--operators"):
        from suites import catalogue

        try:
            catalogue.use(config.getoption("--operators"))
        except catalogue.CatalogueError as error:
            raise pytest.UsageError(f"--operators {error}") from error
    is_worker = hasattr(config, "workerinput")
    if config.getoption("--profile"):
        from suites.session import PLUGIN, SpeedSession

        config.pluginmanager.register(SpeedSession(config), PLUGIN)
    elif config.getoption("--record"):
        prepare()
        if not is_worker and not config.option.collectonly:
            from suites.validation import PLUGIN as VALIDATION
            from suites.validation import ValidationSession

            config.pluginmanager.register(ValidationSession(config), VALIDATION)
    from suites import expectation

    if expectation.VARIABLE in os.environ and not is_worker:
        config.pluginmanager.register(expectation.Expectation(os.environ[expectation.VARIABLE]), expectation.PLUGIN)


def prepare() -> None:
    """Sets up this process for checks: several CPU devices, no memory of what a user's operators were tuned to, and the
    same drawn inputs each time (``--hypothesis-profile kernel-bridge-long`` draws others, and many more).
    """
    import jax
    from hypothesis import settings

    os.environ["KERNEL_BRIDGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernel-bridge-")
    jax.config.update("jax_num_cpu_devices", CPU_DEVICES)
    settings.register_profile("kernel-bridge", max_examples=10, derandomize=True, database=None, deadline=None)
    settings.register_profile("kernel-bridge-long", max_examples=1000, deadline=None)
    settings.load_profile("kernel-bridge")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _HERE not in Path(metafunc.module.__file__ or "").parents:
        return
    from suites import params

    config = metafunc.config
    platform = config.getoption("--device")
    for name in params.TABLES.keys() & set(metafunc.fixturenames):
        cells = params.TABLES[name](platform)
        if config.getoption("--cells") == "quick":
            cells = params.quick(name, cells)
        metafunc.parametrize(name, params.chosen(cells, config.getoption("--operator"), config.getoption("--backend")))
    if "speed_case" in metafunc.fixturenames:
        metafunc.parametrize("speed_case", params.speeds(platform, config.getoption("--profile") or "quick"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--profile"):
        return
    dropped = {item for item in items if item.get_closest_marker("speed")}
    cells = [item for item in items if _case(item) is not None]
    for item in cells:
        check = _check(item)
        if check is not None:
            for mark in _marks(item, check):
                item.add_marker(mark)
        elif config.getoption("--record"):
            dropped.add(item)
    if config.getoption("--record"):  # a table without a cell leaves an item that says so
        dropped |= {item for item in items if item.name.endswith("[NOTSET]")}
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    # The checks of one kernel follow each other, so that it is compiled once, by one worker.
    places = [place for place, item in enumerate(items) if _case(item) is not None]
    for place, item in zip(places, sorted((items[place] for place in places), key=_kernel), strict=True):
        items[place] = item


def _check(item: pytest.Item) -> str | None:
    from suites.checks import by_test

    check = by_test().get(getattr(item, "originalname", ""))
    return None if check is None else check.name


def _marks(item: pytest.Item, check: str) -> list[pytest.MarkDecorator]:
    from suites.params import marks_of_check

    return marks_of_check(_case(item), check)


def _kernel(item: pytest.Item) -> tuple[str, str, str]:
    case = _case(item)
    return case.operator.name, case.backend.id, case.dtype


def _case(item: pytest.Item) -> Any:
    """The cell that a test is about, None where it is about something else."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or _HERE not in item.path.parents:
        return None
    from suites.params import Case

    return next((value for value in callspec.params.values() if isinstance(value, Case)), None)


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Any:
    """Where a test takes its verdicts, a :class:`suites.evidence.Evidence`."""
    from suites.evidence import Evidence

    request.node.stash[_EVIDENCE] = Evidence()
    return request.node.stash[_EVIDENCE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives the report of a check what is to be recorded of it, see :class:`suites.validation.Finding`."""
    report = yield
    decides = report.when == "call" or not report.passed
    if decides and item.config.getoption("--record") and _case(item) is not None:
        from suites.validation import finding

        # An attribute that a report does not have by itself comes along from a worker.
        report.finding = finding(_case(item), item.stash.get(_EVIDENCE, None), call.excinfo, report)  # type: ignore[attr-defined]
    return report
