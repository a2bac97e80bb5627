"""Loads the plugin of :mod:`suites` for this project's tests, with as many CPU devices as tests of sharding need."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

pytest_plugins = ["suites.plugin"]
UNIT = Path(__file__).parent / "suites" / "unit"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prepares the checks. All processes of a session share the machine code of handlers, and nothing with the user."""
    if not hasattr(config, "workerinput"):
        from suites.sessions.preparation import temporary_folder

        os.environ["KERNEL_BRIDGE_CACHE_DIR"] = temporary_folder(config)
    if not config.option.kb_bench:
        from suites.sessions.preparation import prepare

        prepare(config)


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
