"""Keeps the kernels of one operator, by platform and backend, and the default backend of each platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bridge.errors import BackendError, SignatureError
from bridge.languages.language import Standing
from bridge.operator.operator_call import Candidate, Generator
from bridge.operator.static_parameters import NO_PARAMETERS, Parameters

Configurations = Mapping[str, Mapping[str, Any]]
"""Keyword parameters that a generator gets in addition to the call's, by the name of the configuration."""

DEFAULT = "default"
"""The name that stands for each operator's own default."""

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
    """What is registered for an operator at one moment. Hashable; a registration makes another one.

    Attributes:
        name: The operator, for errors.
        candidates: All kernels, each in all of its configurations, in order of registration.
        chosen: For each platform: its name, its default (a reference), and the standing of the default. A kernel of
            higher standing takes the default's place.
    """

    name: str
    candidates: tuple[Candidate, ...] = ()
    chosen: tuple[tuple[str, str, Standing], ...] = ()

    @property
    def kernels(self) -> dict[str, dict[str, Generator]]:
        """The generators, by platform and backend."""
        found: dict[str, dict[str, Generator]] = {}
        for each in self.candidates:
            found.setdefault(each.platform, {})[each.backend] = each.generator
        return found

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend (or ``"backend:configuration"``) of each platform."""
        return {platform: reference for platform, reference, _ in self.chosen}

    @property
    def standings(self) -> dict[str, Standing]:
        """The standing of the default of each platform."""
        return {platform: standing for platform, _, standing in self.chosen}

    def of(self, platform: str) -> tuple[Candidate, ...]:
        """The candidates of a platform."""
        return tuple(each for each in self.candidates if each.platform == platform)

    def find(self, platform: str, reference: str) -> Candidate | None:
        """The candidate that ``"backend"`` (in its first configuration) or ``"backend:configuration"`` names."""
        return next((each for each in self.of(platform) if reference in (each.backend, each.reference)), None)

    def describe(self) -> str:
        """Lists the registered backends, for error messages."""
        parts = []
        for platform, backends in self.kernels.items():
            named = {name: [c.configuration for c in self.of(platform) if c.backend == name] for name in backends}
            listed = [n if each == [None] else f"{n} ({', '.join(map(str, each))})" for n, each in named.items()]
            parts.append(f"{platform}: {', '.join(listed)}")
        return "; ".join(parts) or "nothing"

    def registered(
        self,
        backend: str,
        platform: str,
        generator: Generator,
        asdefault: bool,
        standing: Standing = Standing.REGULAR,
        configurations: Configurations | None = None,
    ) -> Snapshot:
        """Adds or replaces a kernel. The first kernel of the highest standing on a platform becomes its default.

        Raises:
            BackendError: The platform is unknown.
            SignatureError: The backend has no name that a call could use, the generator cannot be called, or the
                configurations are malformed.
        """
        platform = canonical_platform(platform, self.name)
        if not isinstance(backend, str) or not backend or backend == DEFAULT or set(backend) & set(":,"):
            raise SignatureError(
                f"{self.name}: the backend is {backend!r}, expected a name other than {DEFAULT!r}, without colon "
                "('backend:configuration' names a configuration) or comma."
            )
        if not callable(generator):
            raise SignatureError(
                f"{self.name}: the kernel generator for {backend} on {platform} is {generator!r}, expected a function "
                "that takes keyword parameters and returns a function of the input arrays."
            )
        added = [
            Candidate(platform, backend, generator, *each)
            for each in _checked(configurations, f"{self.name}: the configurations of {backend}")
        ]
        kept = list(self.candidates)
        same = [index for index, each in enumerate(kept) if each[:2] == (platform, backend)]
        at = same[0] if same else len(kept)
        kept[at : at + len(same)] = added
        new = replace(self, candidates=tuple(kept))
        if asdefault or standing > self.standings.get(platform, Standing.NONE):
            return new._with_default(platform, backend, Standing.CHOSEN if asdefault else standing)
        if new.find(platform, self.defaults[platform]) is None:  # a configuration that the backend no longer has
            return new._with_default(platform, backend, self.standings[platform])
        return new

    def with_default(self, platform: str, backend: str) -> Snapshot:
        """Makes a registered backend, or one of its configurations, the default of its platform.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        platform = canonical_platform(platform, self.name)
        if self.find(platform, backend) is None:
            raise BackendError(
                f"{self.name}: backend {backend!r} cannot be the default of platform {platform!r}, because it is "
                f"not registered for it (registered: {self.describe()}). Register it with def_kernel first."
            )
        return self._with_default(platform, backend, Standing.CHOSEN)

    def _with_default(self, platform: str, reference: str, standing: Standing) -> Snapshot:
        others = [each for each in self.chosen if each[0] != platform]
        return replace(self, chosen=tuple(sorted([*others, (platform, reference, standing)])))


def _checked(configurations: Any, what: str) -> list[tuple[str | None, Parameters]]:
    """The names and parameters of the configurations that a user passes. Raises SignatureError if malformed."""
    if configurations is None:
        return [(None, NO_PARAMETERS)]
    wrong = SignatureError(
        f"{what} are {configurations!r}, expected a mapping from at least one name to a mapping from keyword "
        "parameters to hashable values, or None."
    )
    if not isinstance(configurations, Mapping) or not configurations:
        raise wrong
    for name, given in configurations.items():
        if not (
            isinstance(name, str) and name and isinstance(given, Mapping) and all(isinstance(p, str) for p in given)
        ):
            raise wrong
    try:
        return [(name, Parameters(given)) for name, given in configurations.items()]
    except TypeError:
        raise wrong from None
