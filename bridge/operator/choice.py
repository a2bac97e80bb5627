"""Chooses the kernel of a call among the registered ones, and explains the choice."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax

from bridge.errors import BackendError, SignatureError
from bridge.operator.operator_call import Candidate, Choice
from bridge.operator.registry import DEFAULT, Snapshot

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
        winners: The winner of tuning for this call, by platform. It takes the default's place.

    Raises:
        BackendError: No platform has a preferred backend, or nothing is registered at all.
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
        if (found := snapshot.find(platform, reference)) is not None:
            return found, reason
    return None


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
