"""Frees the memory that a process keeps for one operator, before it checks another one."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from pathlib import Path
from typing import Any

LIMIT_BYTES = 450 << 20
"""Bytes that a process may keep. After the caches are emptied, compiling the shared programs takes a second or two."""


def free_memory() -> None:
    """Returns free memory to the system. If the process still holds much, empties the caches of JAX and this package.

    Caches without a size limit belong to the process or the session, and stay.
    """
    _trim()
    if _resident_bytes() < LIMIT_BYTES:
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
    """Returns the memory of this process; where Linux does not tell, the limit."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) << 12
    except OSError:
        return LIMIT_BYTES
