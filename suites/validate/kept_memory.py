"""Frees what a process keeps of an operator, before it checks another one."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from pathlib import Path
from typing import Any

MOST_KEPT = 450 << 20
"""Bytes that a process may keep: compiling again what all operators share takes a second or two."""


def forget() -> None:
    """Gives free memory back. If much is left, empties the caches of JAX and of this package.

    Caches without a limit hold what belongs to the process or the session, and stay.
    """
    _trim()
    if _resident_bytes() < MOST_KEPT:
        return
    import jax  # late: a session without checks must not pay for it

    for name, module in list(sys.modules.items()):
        for each in list(vars(module).values()) if name.startswith("suites.") else ():
            if isinstance(each, functools._lru_cache_wrapper) and each.cache_parameters()["maxsize"] is not None:
                each.cache_clear()
    jax.clear_caches()
    gc.collect()
    _trim()


def _trim() -> None:
    library: Any = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # of glibc, which keeps large arrays otherwise
        library.malloc_trim(0)


def _resident_bytes() -> int:
    """The memory of this process; where Linux does not tell, as much as it may keep."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) << 12
    except OSError:
        return MOST_KEPT
