"""Where the unit tests run: on the CPU, also on a machine with a GPU, unless a module names another platform."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def default_platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """What names no device is on the CPU, or on the module's ``PLATFORM``; in processes that a test starts too."""
    platform = getattr(request.module, "PLATFORM", "cpu")
    before = jax.config.jax_default_device
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DEFAULT_DEVICE", platform)
        jax.config.update("jax_default_device", jax.devices(platform)[0])
        yield
        jax.config.update("jax_default_device", before)
