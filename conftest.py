"""Options of the test session, and the parameters that tests ask for by the names of their arguments."""

from __future__ import annotations

import os
import tempfile

import jax
import pytest

CPU_DEVICES = 8
"""How many devices JAX makes of the CPU, for the tests of sharding; where cells are timed it has one, as for users."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-bridge")
    group.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where the cells of the suites run")
    group.addoption(
        "--profile",
        choices=("quick", "full"),
        default=None,
        help="time the cells of this profile (suites/test_speed.py)",
    )
    group.addoption(
        "--resume", metavar="RUN", default=None, help="continue this recorded run: a path, a run id, or latest"
    )
    group.addoption("--operator", action="append", default=[], help="time only this operator; may be repeated")
    group.addoption("--backend", action="append", default=[], help="time only this backend; may be repeated")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "speed: times cells and records them; runs only with --profile")
    # What a user's operators were tuned to must not decide what is tested.
    os.environ["KERNEL_BRIDGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernel-bridge-")
    if config.getoption("--profile"):
        from suites.session import PLUGIN, SpeedSession

        config.pluginmanager.register(SpeedSession(config), PLUGIN)
    else:
        jax.config.update("jax_num_cpu_devices", CPU_DEVICES)
    from suites import expectation

    if expectation.VARIABLE in os.environ:
        config.pluginmanager.register(expectation.Expectation(os.environ[expectation.VARIABLE]), expectation.PLUGIN)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from suites import params

    platform = metafunc.config.getoption("--device")
    for name in params.TABLES.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, params.TABLES[name](platform))
    if "speed_case" in metafunc.fixturenames:
        metafunc.parametrize("speed_case", params.speeds(platform, metafunc.config.getoption("--profile") or "quick"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--profile"):
        return
    speed = [item for item in items if item.get_closest_marker("speed")]
    if speed:
        config.hook.pytest_deselected(items=speed)
        items[:] = [item for item in items if item not in set(speed)]
