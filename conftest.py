"""Loads the plugin of :mod:`suites` for this project's tests, with as many CPU devices as tests of sharding need."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

pytest_plugins = ["suites.plugin"]
UNIT = Path(__file__).parent / "suites" / "unit"
LEFT_OUT = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prepares the checks. All processes of a session share the machine code of handlers, and nothing with the user."""
    from suites.processes.preparation import prepare, temporary_folder

    if not hasattr(config, "workerinput"):
        os.environ["KERNEL_BRIDGE_CACHE_DIR"] = temporary_folder(config)
    prepare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the deep tests, before pytest applies ``-m``. The session of another project knows no such mark."""
    if config.inipath != Path(__file__).with_name("pyproject.toml"):
        return
    from suites.checks.register import check_of_id
    from suites.unit.nightly import is_deep_check, is_deep_test
    from suites.validate.check_items import case_of

    for item in items:
        case = case_of(item)
        check = case and check_of_id(item.nodeid)
        if is_deep_test(item.nodeid) or (case and check and is_deep_check(check.name, case)):
            item.add_marker("nightly")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Counts the deep tests that ``-m`` leaves out."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.config.stash[LEFT_OUT] = item.config.stash.get(LEFT_OUT, 0) + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says that tests were left out, and how to run them: the reason why a test that was named did not run."""
    count = terminalreporter.config.stash.get(LEFT_OUT, 0)
    if count and terminalreporter.config.option.markexpr:  # without -m, they were left out by -k
        terminalreporter.write_line(f'{count} nightly tests were left out: add -m "", or run nox -s nightly')


def pytest_collection_finish() -> None:
    """Leaves what belongs to the session out of later collections of garbage: 14,000 tests, and the libraries."""
    _keep()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Does the same after each file of unit tests, for what caches keep. Otherwise a collection takes seconds."""
    if nextitem is not None and nextitem.path != item.path and UNIT in item.path.parents:
        _keep()


def _keep() -> None:
    gc.collect()
    gc.freeze()
