"""Giving back what the bridge keeps for reuse."""

from __future__ import annotations

import sys

from bridge.ffi.target import TARGETS
from bridge.languages.wrapper import forget_wrappers


def release() -> int:
    """Drops wrappers and compiled kernels that nothing uses any more; returns the number of kernels dropped.

    A kernel is in use while the caller holds a wrapper of it or JAX holds a trace or program that calls it
    (``jax.clear_caches()`` makes JAX let go). Machine code and FFI targets stay for the life of the process: Numba's
    JIT does not unmap the one, XLA cannot forget the other.
    """
    forget_wrappers()
    if (of_warp := sys.modules.get("bridge.languages.warp.wrapping")) is not None:
        of_warp.forget_programs()
    return sum(target.release() for target in TARGETS)
