"""Drops the wrappers and compiled kernels that the bridge keeps for reuse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from bridge.ffi.target import TARGETS

P = ParamSpec("P")
R = TypeVar("R")

_caches: list[Any] = []


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function that makes wrappers: keeps the latest 4096 of its results until :func:`release`."""
    cached: Any = functools.lru_cache(maxsize=4096)(function)
    _caches.append(cached)
    return cached  # type: ignore[no-any-return]


def release() -> int:
    """Drops wrappers and compiled kernels that nothing uses any more; returns the number of kernels dropped.

    A kernel is in use while the caller holds a wrapper of it or JAX holds a trace or program that calls it
    (``jax.clear_caches()`` makes JAX let go). Machine code and FFI targets stay for the life of the process: Numba's
    JIT cannot unmap machine code, and XLA cannot forget targets.
    """
    for cache in _caches:
        cache.cache_clear()
    return sum(target.release() for target in TARGETS)
