"""Decides which kernel runs on which platform, from a snapshot of the registry and the wishes of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from bridge.errors import BackendError
from bridge.operator.choice.preference import DEFAULT
from bridge.operator.choice.registry import Generator, Snapshot
from bridge.operator.static_parameters import NO_PARAMETERS, Parameters


class Candidate(NamedTuple):
    """The kernel that runs if the computation is lowered for ``platform``.

    Attributes:
        platform: JAX's name of the platform.
        backend: The name it is registered under.
        generator: Makes the kernel.
        configuration: The name of its configuration, if it has any.
        options: The keyword parameters of the configuration.
    """

    platform: str
    backend: str
    generator: Generator
    configuration: str | None = None
    options: Parameters = NO_PARAMETERS

    @property
    def reference(self) -> str:
        """Its name in a call: ``"backend"`` or ``"backend:configuration"``."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any, because the platform is known only when a computation is lowered."""

TUNED = "tuned"
"""The wish that a winner of tuning fulfils, in place of ``"default"``."""

NO_WINNERS: Mapping[str, str] = MappingProxyType({})


def choose(snapshot: Snapshot, preferred: Sequence[str], name: str, winners: Mapping[str, str] = NO_WINNERS) -> Choice:
    """The candidates for a call.

    Args:
        snapshot: The kernels that are registered now.
        preferred: Backends, ``"backend:configuration"``, or ``"default"`` for the default of a platform. Each platform
            runs the first one that it has.
        name: The operator, for errors.
        winners: The winner of tuning for this call, by platform. It takes the place of the default if it is registered.

    Raises:
        BackendError: No platform has a preferred backend, or nothing is registered at all.
    """
    selected = [select(snapshot, platform, preferred, winners) for platform in sorted(snapshot.kernels)]
    chosen = tuple(each[0] for each in selected if each is not None)
    if not chosen:
        requested = [backend for backend in preferred if backend != DEFAULT]
        request = (
            f"backend {' or '.join(map(repr, requested))} is not registered" if requested else "no kernel is registered"
        )
        raise BackendError(
            f"{name}: {request} (registered: {snapshot.describe()}). Register a kernel with def_kernel"
            + (", or ask for another backend." if requested else ".")
        )
    return chosen


def select(
    snapshot: Snapshot, platform: str, preferred: Sequence[str], winners: Mapping[str, str]
) -> tuple[Candidate, str] | None:
    """The candidate of one platform, with the wish that it fulfils: a name in ``preferred``, or :data:`TUNED`.

    Takes the arguments of :func:`choose`. None if the platform has no preferred backend.
    """
    for wish in preferred:
        if wish == DEFAULT:
            if platform in winners and (tuned := candidate(snapshot, platform, winners[platform])) is not None:
                return tuned, TUNED
            found = candidate(snapshot, platform, snapshot.defaults[platform])
        else:
            found = candidate(snapshot, platform, wish)
        if found is not None:
            return found, wish
    return None


def candidate(snapshot: Snapshot, platform: str, reference: str) -> Candidate | None:
    """The candidate that ``"backend"`` or ``"backend:configuration"`` names on a platform; None if there is none."""
    found = snapshot.find(platform, reference)
    if found is None:
        return None
    backend, configuration = found
    options: Mapping[str, Any] = {}
    if configuration is not None:
        options = snapshot.configurations[platform][backend][configuration]
    return Candidate(platform, backend, snapshot.kernels[platform][backend], configuration, Parameters(options))


def candidates(snapshot: Snapshot, platform: str) -> tuple[Candidate, ...]:
    """All backends of a platform, each in all of its configurations, in order of registration."""
    named = snapshot.configurations.get(platform, {})
    references = [
        reference
        for backend in snapshot.kernels.get(platform, {})
        for reference in ([f"{backend}:{each}" for each in named[backend]] if backend in named else [backend])
    ]
    found = (candidate(snapshot, platform, reference) for reference in references)
    return tuple(each for each in found if each is not None)


def candidate_for(choice: Choice, platform: str, name: str) -> Candidate:
    """The candidate for the platform that a call is lowered for.

    Raises:
        BackendError: There is none.
    """
    for candidate in choice:
        if candidate.platform == platform:
            return candidate
    available = ", ".join(f"{c.platform}: {c.reference}" for c in choice)
    raise BackendError(
        f"{name}: no kernel for platform {platform!r} (this call can run on {available}). Register one with "
        f"def_kernel(backend, {platform!r}, generator), or put the inputs on another device."
    )
