"""Describes the software and hardware that a winner of tuning depends on, besides the kernels."""

from __future__ import annotations

import contextlib
import functools
import os
import platform as machine
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

_DISTRIBUTIONS = ("kernel-bridge", "jax", "jaxlib", "numpy")


def _no_digest(value: Any) -> str | None:
    return None


def _cores() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Toolchain:
    """The kernel languages that an operator may use, as far as the speed of a kernel depends on them.

    Attributes:
        distributions: Names of their packages. The installed versions are part of every winner.
        modules: Names of their modules. Their functions count by name and version, not by content.
        digest: A digest of the content of a kernel object; None if it is no kernel of these languages.
        threads: The number of threads that a kernel may use on the CPU.
    """

    distributions: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()
    digest: Callable[[Any], str | None] = _no_digest
    threads: Callable[[], int] = _cores

    def versions(self) -> dict[str, str]:
        """The versions of Python and of the packages that take part in a call.

        Installed packages count, imported or not: a winner may be looked for before its language is imported.
        """
        return _versions(self.distributions)

    def kind_of(self, device: jax.Device) -> str:
        """The kind of a device: devices of one kind are equally fast. For a CPU, JAX does not know it."""
        return f"{_cpu_name()}, {self.threads()} threads" if device.platform == "cpu" else str(device.device_kind)

    def kinds(self, platform: str) -> frozenset[str]:
        """The kinds of the devices of a platform in this process."""
        try:
            return frozenset(map(self.kind_of, jax.local_devices(backend=platform)))
        except RuntimeError:  # this process has no such devices
            return frozenset()


@functools.cache
def _versions(distributions: tuple[str, ...]) -> dict[str, str]:
    found = {"python": machine.python_version()}
    for name in (*_DISTRIBUTIONS, *distributions):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@functools.cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else machine.processor() or machine.machine()
