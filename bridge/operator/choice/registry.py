"""Keeps the kernels of one operator, by platform and backend, and the default backend of each platform."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from bridge.errors import BackendError, SignatureError
from bridge.languages.language import Standing
from bridge.operator.choice.preference import DEFAULT

Generator = Callable[..., Callable[..., Any]]
"""Takes keyword parameters, ``outs`` among them, and returns a function of the input arrays."""

Configurations = Mapping[str, Mapping[str, Any]]
"""Keyword parameters that a generator gets in addition to the call's, by the name of the configuration."""

PLATFORMS = ("cpu", "cuda", "tpu")
_ALIASES = {"gpu": "cuda"}


def canonical_platform(platform: str, name: str) -> str:
    """JAX's name of a platform.

    Raises:
        BackendError: JAX has no such platform.
    """
    canonical = _ALIASES.get(platform, platform) if isinstance(platform, str) else None
    if canonical not in PLATFORMS:
        raise BackendError(f"{name}: platform is {platform!r}, expected one of {', '.join((*PLATFORMS, *_ALIASES))}.")
    return canonical


@dataclass(frozen=True)
class Snapshot:
    """The registry at one moment. Later registrations do not change it.

    Attributes:
        kernels: The generators, by platform and backend.
        configurations: The configurations of backends that have any, by platform and backend; the default first.
        defaults: The default backend (or ``"backend:configuration"``) of each platform.
        standings: The standing of the default of each platform. A kernel of higher standing takes its place.
    """

    kernels: Mapping[str, Mapping[str, Generator]] = field(default_factory=dict)
    configurations: Mapping[str, Mapping[str, Configurations]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    standings: Mapping[str, Standing] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """The fields as plain dicts: Python can neither copy nor pickle a read-only view."""
        return {name: _plain(value) for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: _read_only(value) for name, value in state.items()})

    def describe(self) -> str:
        """Lists the registered backends, for error messages."""
        parts = []
        for platform, backends in self.kernels.items():
            named = self.configurations.get(platform, {})
            listed = [f"{each} ({', '.join(named[each])})" if each in named else each for each in backends]
            parts.append(f"{platform}: {', '.join(listed)}")
        return "; ".join(parts) or "nothing"

    def find(self, platform: str, reference: str) -> tuple[str, str | None] | None:
        """The backend and configuration that ``"backend"`` or ``"backend:configuration"`` names on a platform.

        The configuration is None if the backend has none. The result is None if the name is not registered.
        """
        if not isinstance(reference, str):
            return None
        backends = self.kernels.get(platform, {})
        named = self.configurations.get(platform, {})
        if reference in backends:
            return reference, next(iter(named[reference])) if reference in named else None
        backend, _, configuration = reference.partition(":")
        return (backend, configuration) if configuration in named.get(backend, {}) else None


class Registry:
    """Registers kernels. Thread-safe: readers take the current :class:`Snapshot`.

    Args:
        name: The operator, for errors.

    Attributes:
        snapshot: What is registered now. A change replaces it.
    """

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()
        self.snapshot = Snapshot()

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "snapshot": self.snapshot}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def register(
        self,
        backend: str,
        platform: str,
        generator: Generator,
        asdefault: bool,
        standing: Standing = Standing.REGULAR,
        configurations: Configurations | None = None,
    ) -> None:
        """Adds or replaces a kernel. The first kernel of the highest standing on a platform becomes its default.

        Args:
            backend: The name of the kernel on this platform.
            platform: The platform it runs on.
            generator: Makes the kernel.
            asdefault: Make it the default of the platform.
            standing: Its standing as the default of the platform.
            configurations: Keyword parameters for the generator, by the name of the configuration.

        Raises:
            BackendError: The platform is unknown.
            SignatureError: The backend has no name that a call could use, the generator cannot be called, or the
                configurations are malformed.
        """
        platform = canonical_platform(platform, self._name)
        if not isinstance(backend, str) or not backend or backend == DEFAULT or set(backend) & set(":,"):
            raise SignatureError(
                f"{self._name}: the backend is {backend!r}, expected a name other than {DEFAULT!r}, without colon "
                "('backend:configuration' names a configuration) or comma."
            )
        if not callable(generator):
            raise SignatureError(
                f"{self._name}: the kernel generator for {backend} on {platform} is {generator!r}, expected a function "
                "that takes keyword parameters and returns a function of the input arrays."
            )
        checked = None if configurations is None else _checked_copy(configurations, backend, self._name)
        with self._lock:
            old = self.snapshot
            kernels = {**old.kernels, platform: {**old.kernels.get(platform, {}), backend: generator}}
            others = {name: each for name, each in old.configurations.get(platform, {}).items() if name != backend}
            named = {**old.configurations, platform: others if checked is None else {**others, backend: checked}}
            defaults, standings = dict(old.defaults), dict(old.standings)
            if asdefault or standing > standings.get(platform, Standing.NONE):
                defaults[platform], standings[platform] = backend, Standing.CHOSEN if asdefault else standing
            new = replace(
                old,
                kernels=_read_only(kernels),
                configurations=_read_only(named),
                standings=_read_only(standings),
            )
            if new.find(platform, defaults[platform]) is None:  # a configuration that the backend no longer has
                defaults[platform] = backend
            self.snapshot = replace(new, defaults=_read_only(defaults))

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend, or one of its configurations, the default of its platform.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        platform = canonical_platform(platform, self._name)
        with self._lock:
            old = self.snapshot
            if old.find(platform, backend) is None:
                raise BackendError(
                    f"{self._name}: backend {backend!r} cannot be the default of platform {platform!r}, because it is "
                    f"not registered for it (registered: {old.describe()}). Register it with def_kernel first."
                )
            self.snapshot = replace(
                old,
                defaults=_read_only({**old.defaults, platform: backend}),
                standings=_read_only({**old.standings, platform: Standing.CHOSEN}),
            )


def _checked_copy(configurations: Configurations, backend: str, name: str) -> Configurations:
    """Copies the configurations that a user passes. Raises SignatureError if they are malformed."""
    if not isinstance(configurations, Mapping):
        raise SignatureError(
            f"{name}: the configurations of {backend} are {configurations!r}, expected a mapping from names to keyword "
            "parameters."
        )
    if not configurations:
        raise SignatureError(f"{name}: {backend} has no configurations, expected at least one, or None.")
    for configuration, parameters in configurations.items():
        if not isinstance(configuration, str) or not configuration or not isinstance(parameters, Mapping):
            raise SignatureError(
                f"{name}: {backend} has the configuration {configuration!r}: {parameters!r}, expected a name and a "
                "mapping from keyword parameters to values."
            )
        if not all(isinstance(parameter, str) for parameter in parameters):
            raise SignatureError(
                f"{name}: the configuration {backend}:{configuration} is {parameters!r}, expected names of keyword "
                "parameters."
            )
        try:
            hash(tuple(parameters.values()))
        except TypeError as error:
            raise SignatureError(
                f"{name}: the configuration {backend}:{configuration} has values that are not hashable: {parameters!r}."
            ) from error
    return {each: dict(given) for each, given in configurations.items()}


def _read_only(value: Any) -> Any:
    """Read-only views of nested dicts."""
    if type(value) is not dict:
        return value
    return MappingProxyType({name: _read_only(each) for name, each in value.items()})


def _plain(value: Any) -> Any:
    """The dicts of nested read-only views."""
    if type(value) is not MappingProxyType:
        return value
    return {name: _plain(each) for name, each in value.items()}
