"""Prepares the process of a pytest session for checks, and protects it from other plugins and modules."""

from __future__ import annotations

import contextlib
import shutil
import tempfile

import pytest

CPU_DEVICES = 8
"""CPU devices that JAX makes for the checks of sharding. Where cells are timed it makes one, as for users."""


def prepare(config: pytest.Config) -> None:
    """Prepares this process for checks: several CPU devices."""
    make_cpu_devices()
    _require_cpu_devices(config)


def temporary_folder(config: pytest.Config) -> str:
    """Makes a folder that is deleted when pytest ends."""
    folder = tempfile.mkdtemp(prefix="kernel-bridge-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


def make_cpu_devices() -> None:
    """Gives JAX several CPU devices. If JAX has started before, the checks of sharding use its devices."""
    import jax  # late: a session without checks must not pay for it

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", CPU_DEVICES)


def _require_cpu_devices(config: pytest.Config) -> None:
    """Refuses a session of checks in which other code has started JAX with one CPU device."""
    option = config.option
    if option.kb_device != "cpu" or not (option.kb_record or option.kb_operators):
        return
    import jax

    count = len(jax.devices("cpu"))
    if count < 2:
        raise pytest.UsageError(
            f"JAX has {count} CPU device, and the checks of sharding need several: a conftest.py or a plugin uses JAX "
            f"before the checks. Set the environment variable JAX_NUM_CPU_DEVICES={CPU_DEVICES}."
        )
