"""Reads which backends are preferred, from a context or an environment variable, for calls that name none."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator

from bridge.errors import SignatureError

VARIABLE = "KERNEL_BRIDGE_BACKEND"
"""The environment variable with names of backends, separated by commas. It counts outside of :func:`use_backend`."""

DEFAULT = "default"
"""The name that stands for each operator's own default."""

preferred: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("preferred_backends", default=())
"""The names of the innermost :func:`use_backend`; none where the environment variable counts."""

NOTHING = (DEFAULT,)
"""The preference of a call for which nothing is preferred."""


@contextlib.contextmanager
def use_backend(*names: str) -> Iterator[None]:
    """Makes the operators that are traced in this context run on the first of these backends that they have.

    An operator that has none of them raises a :class:`bridge.BackendError`, so that no other backend runs unnoticed.
    The name ``"default"`` stands for the operator's default and permits it. A call with ``backend=`` is not affected,
    nor is a program that is already compiled. Contexts nest, and each thread has its own. Outside of all contexts, the
    environment variable ``KERNEL_BRIDGE_BACKEND`` counts: names separated by commas.

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
    token = preferred.set(names)
    try:
        yield
    finally:
        preferred.reset(token)


def preferred_backends() -> tuple[str, ...]:
    """The names in force here; ``("default",)`` if nothing is preferred."""
    listed = preferred.get()
    if not listed and (text := os.environ.get(VARIABLE)):
        listed = tuple(name.strip() for name in text.split(",") if name.strip())
    return listed or NOTHING


def preferred_by() -> str:
    """Says who prefers a backend here: the context or the environment variable."""
    return "use_backend" if preferred.get() else VARIABLE
