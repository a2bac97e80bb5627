"""Keeps the kernels of one operator, by platform and backend, and chooses the one of a call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from bridge.errors import BackendError, SignatureError
from bridge.operator.operator_call import NO_PARAMETERS, Candidate, Choice, Generator, Parameters
from bridge.table import Standing

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
        standings = {name: standing for name, _, standing in self.chosen}
        if asdefault or standing > standings.get(platform, Standing.NONE):
            return new._with_default(platform, backend, Standing.CHOSEN if asdefault else standing)
        if new.find(platform, self.defaults[platform]) is None:  # a configuration that the backend no longer has
            return new._with_default(platform, backend, standings[platform])
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


VARIABLE = "KERNEL_BRIDGE_BACKEND"
"""The environment variable with names of backends, separated by commas. It counts outside of :func:`use_backend`."""

_preferred = jax.make_user_context(())
"""The names of the innermost :func:`use_backend`. JAX traces ``jax.jit`` functions anew where they are others."""


@contextlib.contextmanager
def use_backend(*names: str) -> Iterator[None]:
    """Makes the operators that are called in this context run on the first of these backends that they have.

    An operator that has none of them raises a :class:`bridge.BackendError`, so that no other backend runs unnoticed.
    The name ``"default"`` stands for the operator's default and permits it. A call with ``backend=`` is not affected.
    A ``jax.jit`` function that is called in the context is compiled for it, also if it was called before; what
    ``lower().compile()`` returned does not change. Contexts nest, and each thread has its own. Outside of all contexts,
    the environment variable ``KERNEL_BRIDGE_BACKEND`` counts: names separated by commas, read when JAX traces a call.

    Example::

        with bridge.use_backend("warp", "default"):
            y = op(x, outs=spec)

    Args:
        *names: Backends, the preferred one first.

    Raises:
        SignatureError: There is no name, or a name is not a non-empty string.
    """
    if not names or not all(isinstance(name, str) and name for name in names):
        raise SignatureError(f"use_backend got {names!r}, expected the names of one or more backends.")
    with _preferred(names):
        yield


def preferred_backends(backend: str | None) -> tuple[tuple[str, ...], str]:
    """The names that a call with ``backend=`` prefers here (``"default"`` if it prefers nothing), and who says so."""
    if backend is not None:
        return (backend,), "named by the call"
    if names := _preferred.value:
        return names, "preferred by use_backend"
    names = tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    return names or (DEFAULT,), f"preferred by {VARIABLE}"


@dataclass(frozen=True)
class Decision:
    """The backend that a call runs on one platform.

    Attributes:
        platform: JAX's name of the platform.
        backend: Its name in a call: ``"backend"`` or ``"backend:configuration"``; None if the call cannot run there.
        reason: Why this backend runs, or why none does.
    """

    platform: str
    backend: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.platform}: {self.backend or 'nothing'} ({self.reason})"


class Explanation(dict[str, Decision]):
    """The result of :meth:`bridge.XLACustomKernel.explain`: the decision for each platform that has any kernel."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.values()))


def choose(
    snapshot: Snapshot, preferred: Sequence[str], source: str, winners: Mapping[str, str]
) -> tuple[Choice, Explanation]:
    """The candidates for a call, and the reasons.

    Args:
        snapshot: The kernels that are registered now.
        preferred: Backends, ``"backend:configuration"``, or ``"default"`` for the default of a platform. Each platform
            runs the first one that it has.
        source: Who prefers them.
        winners: The backend that was tuned for this call, by platform. It takes the default's place.

    Raises:
        BackendError: No platform has a preferred backend, nothing is registered at all, or a tuned backend is not.
    """
    choice, explanation = [], Explanation()
    for platform in sorted(snapshot.kernels):
        found = _choose_one(snapshot, platform, preferred, source, winners.get(platform))
        if found is None:
            asked = " or ".join(map(repr, preferred))
            explanation[platform] = Decision(platform, None, f"{asked}, {source}, is not registered for it")
            continue
        candidate, reason = found
        choice.append(candidate)
        explanation[platform] = Decision(platform, candidate.reference, reason)
    if not choice:
        requested = " or ".join(repr(backend) for backend in preferred if backend != DEFAULT)
        what = f"backend {requested} is not registered" if requested else "no kernel is registered"
        raise BackendError(
            f"{snapshot.name}: {what} (registered: {snapshot.describe()}). Register a kernel with def_kernel"
            + (", or ask for another backend." if requested else ".")
        )
    return tuple(choice), explanation


def _choose_one(
    snapshot: Snapshot, platform: str, preferred: Sequence[str], source: str, winner: str | None
) -> tuple[Candidate, str] | None:
    for wish in preferred:
        reference, reason = wish, source
        if wish == DEFAULT:
            reference, reason = (winner, "tuned") if winner else (snapshot.defaults[platform], "the default")
            if snapshot.find(platform, reference) is None:
                raise BackendError(
                    f"{snapshot.name}: its choice for platform {platform!r} is {reference!r}, which is not registered "
                    f"for it (registered: {snapshot.describe()}). Tune again, or register it with def_kernel."
                )
        if (found := snapshot.find(platform, reference)) is not None:
            return found, reason
    return None
