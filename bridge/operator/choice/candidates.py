"""Which kernel runs where: a pure function of a registry snapshot and a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from bridge.errors import BackendError
from bridge.operator.choice.preference import DEFAULT
from bridge.operator.choice.registry import Generator, Snapshot


class Candidate(NamedTuple):
    """The kernel that runs if the computation is lowered for ``platform``."""

    platform: str
    backend: str
    generator: Generator
    configuration: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    """The keyword parameters of the configuration, sorted by name."""

    @property
    def reference(self) -> str:
        """What names it in a call."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any: the platform of a computation is known only when it is lowered."""


TUNED = "tuned"
"""Stands for what tuning found, where ``"default"`` would stand for the platform's default."""

NO_WINNERS: Mapping[str, str] = MappingProxyType({})


def choose(snapshot: Snapshot, preferred: Sequence[str], name: str, winners: Mapping[str, str] = NO_WINNERS) -> Choice:
    """The candidates for a call.

    Args:
        snapshot: What is registered now.
        preferred: Backends (or ``"backend:configuration"``), the first of which that a platform has runs there;
            ``"default"`` for its default.
        name: The operator, for errors.
        winners: By platform, what tuning found for this call; where it is registered, it takes the default's place.

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
    """The candidate of one platform, as :func:`choose`, with the wish that it fulfils: a name in ``preferred``, or
    :data:`TUNED`."""
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
    """The candidate that ``"backend"`` or ``"backend:configuration"`` names on a platform, if it is registered."""
    found = snapshot.find(platform, reference)
    if found is None:
        return None
    backend, configuration = found
    options: Mapping[str, Any] = {}
    if configuration is not None:
        options = snapshot.configurations[platform][backend][configuration]
    return Candidate(
        platform, backend, snapshot.kernels[platform][backend], configuration, tuple(sorted(options.items()))
    )


def candidates(snapshot: Snapshot, platform: str) -> tuple[Candidate, ...]:
    """Every backend of a platform in each of its configurations, in order of registration."""
    named = snapshot.configurations.get(platform, {})
    references = [
        reference
        for backend in snapshot.kernels.get(platform, {})
        for reference in ([f"{backend}:{each}" for each in named[backend]] if backend in named else [backend])
    ]
    found = (candidate(snapshot, platform, reference) for reference in references)
    return tuple(each for each in found if each is not None)


def candidate_for(choice: Choice, platform: str, name: str) -> Candidate:
    """The candidate for the platform a call is lowered for.

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
