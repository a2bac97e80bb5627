"""Finds the wrapper that exists for a key, and keeps the latest ones for reuse."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from bridge.languages.definitions import DEFINITIONS

R = TypeVar("R")

PROGRAMS_KEPT = 64
"""Programs that a wrapper keeps where values are compiled in: one for each set of values and options."""

_lock = threading.RLock()
_existing: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_latest: deque[Any] = deque(maxlen=32)
"""What lives although nobody holds it: a step function that wraps its kernels anew finds them compiled."""


def shared(key: Hashable, make: Callable[[], R]) -> R:
    """The wrapper of this key; made now if there is none.

    Args:
        key: Names by ``id`` what refers to code of the user, which may refer to the wrapper. The wrapper holds it.
        make: Makes the wrapper.
    """
    with _lock:
        wrapper: R | None = _existing.get(key)
        if wrapper is None:
            wrapper = _existing[key] = make()
        if wrapper not in _latest:
            _latest.append(wrapper)
        return wrapper


def release() -> int:
    """Drops wrappers and kernels that nothing uses any more; returns the number of kernels dropped.

    Without it, the latest 32 wrappers live on. The device memory that callables keep for their temporaries is freed,
    too.

    A kernel is in use while the caller holds it or a wrapper of it, or JAX holds a trace that calls it
    (``jax.clear_caches()`` makes JAX let go). Loaded machine code stays for the life of the process, so every program
    that calls it can run at any time, also one that runs now or comes from ``jax.export``.
    """
    before = len(DEFINITIONS)
    _latest.clear()
    gc.collect()
    if memory := sys.modules.get("bridge.languages.numba_cuda.device_memory"):
        memory.trim()
    return before - len(DEFINITIONS)
