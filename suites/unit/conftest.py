"""Where the unit tests run: on the CPU, also on a machine with a GPU, unless a module names another platform."""

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import jax
import pytest
from hypothesis import settings

settings.register_profile("unit", max_examples=10, derandomize=True, database=None, deadline=None)
settings.load_profile("unit")


@contextlib.contextmanager
def default(platform: str) -> Iterator[None]:
    """What names no device is on this platform, also in other threads: :func:`jax.default_device` is for one alone."""
    before = jax.config.jax_default_device
    jax.config.update("jax_default_device", jax.devices(platform)[0])
    try:
        yield
    finally:
        jax.config.update("jax_default_device", before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Arrays that belong to a module are made when it is imported."""
    with default("cpu"):
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def default_platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """The platform is the module's ``PLATFORM``, else the CPU, which is then all that a process of its tests sees."""
    platform = getattr(request.module, "PLATFORM", "cpu")
    with default(platform), pytest.MonkeyPatch.context() as patch:
        if platform == "cpu":
            patch.setenv("JAX_PLATFORMS", "cpu")
        yield


@pytest.fixture(scope="session", autouse=True)
def no_worker() -> Iterator[None]:
    """A process that a test starts is no worker of pytest-xdist, also if the test runs in one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_XDIST_WORKER", raising=False)
        yield
