"""Drops the wrappers and kernels that the bridge keeps for reuse."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from bridge.languages.definitions import DEFINITIONS

P = ParamSpec("P")
R = TypeVar("R")

_caches: list[Any] = []
_others: list[Callable[[], None]] = []


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function that makes wrappers: keeps the latest 4096 of its results until :func:`release`."""
    cached: Any = functools.lru_cache(maxsize=4096)(function)
    _caches.append(cached)
    return cached  # type: ignore[no-any-return]


def released(function: Callable[[], None]) -> Callable[[], None]:
    """Decorates a function that frees what is kept for reuse: :func:`release` calls it."""
    _others.append(function)
    return function


def release() -> int:
    """Drops wrappers and kernels that nothing uses any more; returns the number of kernels dropped.

    The device memory that callables keep for their temporaries is freed too.

    A kernel is in use while the caller holds it or a wrapper of it, or JAX holds a trace that calls it
    (``jax.clear_caches()`` makes JAX let go). Loaded machine code stays for the life of the process, so every program
    that calls it can run at any time, also one that runs now or comes from ``jax.export``.
    """
    before = len(DEFINITIONS)
    for cache in _caches:
        cache.cache_clear()
    gc.collect()
    for function in _others:
        function()
    return before - len(DEFINITIONS)
