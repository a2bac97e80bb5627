"""Which kernel runs where: a pure function of a registry snapshot and a request."""

from __future__ import annotations

from typing import NamedTuple

from bridge.errors import BackendError
from bridge.primitive.registry import Generator, Snapshot


class Candidate(NamedTuple):
    """The kernel that runs if the computation is lowered for ``platform``."""

    platform: str
    backend: str
    generator: Generator


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any: the platform of a computation is known only when it is lowered."""


def choose(snapshot: Snapshot, backend: str | None, name: str) -> Choice:
    """The candidates for a call.

    Args:
        snapshot: What is registered now.
        backend: The requested backend, or None for each platform's default.
        name: The operator, for errors.

    Raises:
        BackendError: No platform has the requested backend, or nothing is registered at all.
    """
    chosen = tuple(
        Candidate(platform, wanted, backends[wanted])
        for platform, backends in sorted(snapshot.kernels.items())
        if (wanted := backend or snapshot.defaults[platform]) in backends
    )
    if not chosen:
        request = f"backend {backend!r} is not registered" if backend else "no kernel is registered"
        raise BackendError(
            f"{name}: {request} (registered: {snapshot.describe()}). Register a kernel with def_kernel"
            + (", or pass another backend." if backend else ".")
        )
    return chosen


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
