"""Reads a :class:`~bridge.ffi.native.table.NativeTable` in native code."""

from __future__ import annotations

import numba

from bridge.ffi.native.table import EMPTY, MASK, SLOT_WORDS, SLOTS
from bridge.ffi.native.words import load


@numba.njit(inline="never")
def lookup(table, key):  # type: ignore[no-untyped-def]
    """Native code: the value of ``key`` in the table at the address ``table``, or 0."""
    block = load(table, 0)
    mask = load(block, MASK)
    slot = key & mask
    while True:
        at = SLOTS + SLOT_WORDS * slot
        found = load(block, at)
        if found == key:
            return load(block, at + 1)
        if found == EMPTY:
            return 0
        slot = (slot + 1) & mask
