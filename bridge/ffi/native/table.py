"""Maps keys to addresses in a hash table that Python fills and native code reads without a lock."""

from __future__ import annotations

import ctypes
import threading

import numba

from bridge.ffi.native.words import load

_EMPTY = 0
_FIRST_CAPACITY = 256
# A block is [mask, key 0, value 0, key 1, value 1, ...].
_MASK, _SLOTS, _SLOT_WORDS = 0, 1, 2


def _signed(key: int) -> int:
    return key - (1 << 64) if key >= 1 << 63 else key


class NativeTable:
    """A hash table with open addressing and linear probing. Native code on any thread can read it.

    Keys are non-zero 64-bit integers, values non-zero addresses. Writers hold a lock, and publish a slot by writing its
    key last. A rebuild publishes a new block by writing one word. Old blocks stay allocated for their readers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[int, int] = {}
        self._blocks: list[ctypes.Array[ctypes.c_int64]] = []
        self._used_slots = 0
        self._root = (ctypes.c_int64 * 1)()
        self._rebuild(_FIRST_CAPACITY)

    @property
    def address(self) -> int:
        """Address of the table for :func:`lookup`; it never changes."""
        return ctypes.addressof(self._root)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: int) -> bool:
        return key in self._values

    def __setitem__(self, key: int, value: int) -> None:
        if key == _EMPTY or value == 0:
            raise ValueError(f"keys and values must not be 0, got key {key} and value {value}")
        with self._lock:
            self._values[key] = value
            self._used_slots += self._write(self._blocks[-1], key, value)
            if 2 * self._used_slots > self._capacity:
                self._rebuild(max(_FIRST_CAPACITY, 1 << (4 * len(self._values)).bit_length()))

    @property
    def _capacity(self) -> int:
        return int(self._blocks[-1][_MASK]) + 1

    def _rebuild(self, capacity: int) -> None:
        block = (ctypes.c_int64 * (_SLOTS + _SLOT_WORDS * capacity))()
        block[_MASK] = capacity - 1
        self._used_slots = sum(self._write(block, key, value) for key, value in self._values.items())
        self._blocks.append(block)
        self._root[0] = ctypes.addressof(block)

    @staticmethod
    def _write(block: ctypes.Array[ctypes.c_int64], key: int, value: int) -> bool:
        """Writes a slot; returns whether it was empty before."""
        mask, key = block[_MASK], _signed(key)
        slot = key & mask
        while block[_SLOTS + _SLOT_WORDS * slot] not in (_EMPTY, key):
            slot = (slot + 1) & mask
        at = _SLOTS + _SLOT_WORDS * slot
        fresh = block[at] == _EMPTY
        block[at + 1] = value
        block[at] = key
        return fresh


@numba.njit(inline="never")
def lookup(table, key):
    """Native code: the value of ``key`` in the table at the address ``table``, or 0."""
    block = load(table, 0)
    mask = load(block, _MASK)
    slot = key & mask
    while True:
        at = _SLOTS + _SLOT_WORDS * slot
        found = load(block, at)
        if found == key:
            return load(block, at + 1)
        if found == _EMPTY:
            return 0
        slot = (slot + 1) & mask
