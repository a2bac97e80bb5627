"""Which kernel runs where: a pure function of a registry snapshot and a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.errors import BackendError
from bridge.primitive.preference import DEFAULT
from bridge.primitive.registry import Generator, Snapshot


class Candidate(NamedTuple):
    """The kernel that runs if the computation is lowered for ``platform``."""

    platform: str
    backend: str
    generator: Generator


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any: the platform of a computation is known only when it is lowered."""


def choose(snapshot: Snapshot, preferred: Sequence[str], name: str) -> Choice:
    """The candidates for a call.

    Args:
        snapshot: What is registered now.
        preferred: Backends, the first of which that a platform has runs there; ``"default"`` for its default.
        name: The operator, for errors.

    Raises:
        BackendError: No platform has a preferred backend, or nothing is registered at all.
    """
    chosen = []
    for platform, backends in sorted(snapshot.kernels.items()):
        wanted = [snapshot.defaults[platform] if backend == DEFAULT else backend for backend in preferred]
        found = next((backend for backend in wanted if backend in backends), None)
        if found is not None:
            chosen.append(Candidate(platform, found, backends[found]))
    if not chosen:
        requested = [backend for backend in preferred if backend != DEFAULT]
        request = (
            f"backend {' or '.join(map(repr, requested))} is not registered" if requested else "no kernel is registered"
        )
        raise BackendError(
            f"{name}: {request} (registered: {snapshot.describe()}). Register a kernel with def_kernel"
            + (", or ask for another backend." if requested else ".")
        )
    return tuple(chosen)


def candidate_for(choice: Choice, platform: str, name: str) -> Candidate:
    """The candidate for the platform a call is lowered for.

    Raises:
        BackendError: There is none.
    """
    for candidate in choice:
        if candidate.platform == platform:
            return candidate
    available = ", ".join(f"{c.platform}: {c.backend}" for c in choice)
    raise BackendError(
        f"{name}: no kernel for platform {platform!r} (this call can run on {available}). Register one with "
        f"def_kernel(backend, {platform!r}, generator), or put the inputs on another device."
    )
