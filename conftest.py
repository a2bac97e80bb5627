"""The test session of this project: the plugin of :mod:`suites`, with as many CPU devices as tests of sharding need."""

from __future__ import annotations

import pytest

pytest_plugins = ["suites.plugin"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.kb_bench:
        return
    from hypothesis import settings

    from suites.plugin import HYPOTHESIS_PROFILE, prepare

    prepare(config)
    settings.load_profile(HYPOTHESIS_PROFILE)
