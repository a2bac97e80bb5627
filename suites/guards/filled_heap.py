"""Fills the memory that a kernel allocates. New memory is mostly zeros, which hides that a kernel does not set it.

The GNU C library can fill memory, see ``M_PERTURB`` in mallopt(3), also large blocks from the operating system. It
fills fresh memory with one byte and freed memory with its complement. One of the two is a small floating-point number,
which may pass for zero. So a kernel has to run twice, with :data:`FILLS`.

The library does not fill small blocks that this thread has freed before. So they are filled here.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import types

from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.words import call, call3, load, store

FILLS = (0x01, 0x5A)
"""Bytes for freed memory. Fresh memory gets 0xFE or 0xA5. As floats, 0xFE and 0x5A are large."""


_libc = ctypes.CDLL(None)

MISSING = None if hasattr(_libc, "gnu_get_libc_version") else "the heap is filled by the GNU C library only"
"""Why the heap cannot be filled on this machine; None if it can."""

_M_PERTURB = -6

# The blocks that the library caches for a thread: 64 sizes, at most 7 of each by default.
_SIZES, _FIRST_BYTES, _STEP_BYTES, _BLOCKS = 64, 24, 16, 7

_lock = threading.Lock()
_users = 0


@contextlib.contextmanager
def filled_heap(byte: int) -> Iterator[None]:
    """Fills all memory that this process allocates inside the ``with`` block; does nothing if :data:`MISSING` is set.

    Args:
        byte: One of :data:`FILLS`; ``with`` blocks that overlap must have the same.
    """
    if MISSING is not None:
        yield
        return
    _fill_cached_blocks()(byte ^ 0xFF)
    _count(1, byte)
    try:
        yield
    finally:
        _count(-1, byte)


def _count(change: int, byte: int) -> None:
    """Turns the filling on with the first block, and off with the last."""
    global _users
    with _lock:
        _users += change
        _libc.mallopt(_M_PERTURB, byte if _users else 0)


@functools.cache
def _fill_cached_blocks() -> Any:
    """Returns a C function that allocates all cached blocks of its thread, fills them with a byte, and frees them."""
    malloc, free, memset = (np.int64(c_function(getattr(_libc, name))) for name in ("malloc", "free", "memset"))

    @numba.cfunc(types.int64(types.int64), error_model="numpy")
    def fill(byte):
        for size in range(_SIZES):
            size_bytes = _FIRST_BYTES + size * _STEP_BYTES
            first = 0
            for _ in range(_BLOCKS):  # each block holds the address of the one before it
                block = call(malloc, size_bytes)
                if block == 0:
                    break
                store(block, 0, first)
                first = block
            while first != 0:
                block, first = first, load(first, 0)
                call3(memset, block, byte, size_bytes)
                call(free, block)
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(fill.address)
