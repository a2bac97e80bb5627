"""The kernels of one operator: platform -> backend -> generator, and the default backend of each platform."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from bridge.errors import BackendError
from bridge.primitive.rules import Rules

Generator = Callable[..., Callable[..., Any]]
"""From keyword parameters (``outs`` among them) to a function of the input arrays."""

PLATFORMS = ("cpu", "cuda", "tpu")
_ALIASES = {"gpu": "cuda"}

NONE, INTERPRETED, REFERENCE, ONE_THREAD, REGULAR, CHOSEN = range(6)
"""Standings of a kernel as the default of a platform, from none at all to the user's choice."""


def canonical_platform(platform: str, name: str) -> str:
    """JAX's name of a platform.

    Raises:
        BackendError: JAX has no such platform.
    """
    canonical = _ALIASES.get(platform, platform)
    if canonical not in PLATFORMS:
        raise BackendError(f"{name}: platform is {platform!r}, expected one of {', '.join((*PLATFORMS, *_ALIASES))}.")
    return canonical


@dataclass(frozen=True)
class Snapshot:
    """The registry at one moment; later registrations do not change it."""

    kernels: Mapping[str, Mapping[str, Generator]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    standings: Mapping[str, int] = field(default_factory=dict)
    """By platform, the standing of its default: it gives way to a kernel of higher standing."""
    rules: Rules = field(default_factory=Rules)

    def describe(self) -> str:
        """What is registered, for error messages."""
        parts = [f"{platform}: {', '.join(backends)}" for platform, backends in self.kernels.items()]
        return "; ".join(parts) or "nothing"


class Registry:
    """Thread-safe registration; readers take the current :class:`Snapshot`."""

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()
        self._snapshot = Snapshot()

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def register(
        self, backend: str, platform: str, generator: Generator, asdefault: bool, standing: int = REGULAR
    ) -> None:
        """Adds or replaces a kernel; the first of the highest standing on a platform becomes its default.

        Args:
            backend: Names the kernel among those of the platform.
            platform: Where it runs.
            generator: Makes it.
            asdefault: Make it the default of the platform.
            standing: How well it does for a default there.

        Raises:
            BackendError: The platform is unknown.
            TypeError: The generator cannot be called.
        """
        platform = canonical_platform(platform, self._name)
        if not callable(generator):
            raise TypeError(
                f"{self._name}: the kernel generator for {backend} on {platform} is {generator!r}, expected a function "
                "that takes keyword parameters and returns a function of the input arrays."
            )
        with self._lock:
            old = self._snapshot
            kernels = {**old.kernels, platform: {**old.kernels.get(platform, {}), backend: generator}}
            defaults, standings = dict(old.defaults), dict(old.standings)
            if asdefault or standing > standings.get(platform, NONE):
                defaults[platform], standings[platform] = backend, CHOSEN if asdefault else standing
            self._snapshot = replace(
                old,
                kernels=MappingProxyType({p: MappingProxyType(b) for p, b in kernels.items()}),
                defaults=MappingProxyType(defaults),
                standings=MappingProxyType(standings),
            )

    def declare(self, change: Callable[[Rules], Rules]) -> None:
        """Replaces the rules by what ``change`` makes of them."""
        with self._lock:
            self._snapshot = replace(self._snapshot, rules=change(self._snapshot.rules))

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend the default of its platform.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        platform = canonical_platform(platform, self._name)
        with self._lock:
            old = self._snapshot
            if backend not in old.kernels.get(platform, {}):
                raise BackendError(
                    f"{self._name}: backend {backend!r} cannot be the default of platform {platform!r}, because it is "
                    f"not registered for it (registered: {old.describe()}). Register it with def_kernel first."
                )
            self._snapshot = replace(
                old,
                defaults=MappingProxyType({**old.defaults, platform: backend}),
                standings=MappingProxyType({**old.standings, platform: CHOSEN}),
            )
