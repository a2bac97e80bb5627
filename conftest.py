"""Loads the plugin of :mod:`suites` for this project's tests, with as many CPU devices as tests of sharding need."""

from __future__ import annotations

import gc

import pytest

pytest_plugins = ["suites.plugin"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.option.kb_bench:
        from suites.sessions.preparation import prepare

        prepare(config)


def pytest_collection_finish() -> None:
    """Leaves what belongs to the session out of later collections of garbage: 14,000 tests, and the libraries."""
    gc.collect()
    gc.freeze()
