"""Maps keys to addresses in a hash table that Python fills and native code reads without a lock."""

from __future__ import annotations

import ctypes
import threading

EMPTY = 0
"""The key of an empty slot."""

MASK, SLOTS, SLOT_WORDS = 0, 1, 2
"""The layout of a block: ``[mask, key 0, value 0, key 1, value 1, ...]``."""

_FIRST_CAPACITY = 256


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
        """Address of the table for :func:`bridge.ffi.native.lookup.lookup`; it never changes."""
        return ctypes.addressof(self._root)

    def forget(self) -> None:
        """Makes native code find nothing any more. It takes no lock."""
        block = (ctypes.c_int64 * (SLOTS + SLOT_WORDS))()
        self._blocks.append(block)
        self._root[0] = ctypes.addressof(block)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: int) -> bool:
        return key in self._values

    def __setitem__(self, key: int, value: int) -> None:
        if key == EMPTY or value == 0:
            raise ValueError(f"keys and values must not be 0, got key {key} and value {value}")
        with self._lock:
            self._values[key] = value
            self._used_slots += self._write(self._blocks[-1], key, value)
            if 2 * self._used_slots > self._capacity:
                self._rebuild(max(_FIRST_CAPACITY, 1 << (4 * len(self._values)).bit_length()))

    @property
    def _capacity(self) -> int:
        return int(self._blocks[-1][MASK]) + 1

    def _rebuild(self, capacity: int) -> None:
        block = (ctypes.c_int64 * (SLOTS + SLOT_WORDS * capacity))()
        block[MASK] = capacity - 1
        self._used_slots = sum(self._write(block, key, value) for key, value in self._values.items())
        self._blocks.append(block)
        self._root[0] = ctypes.addressof(block)

    @staticmethod
    def _write(block: ctypes.Array[ctypes.c_int64], key: int, value: int) -> bool:
        """Writes a slot; returns whether it was empty before."""
        mask, key = block[MASK], _signed(key)
        slot = key & mask
        while block[SLOTS + SLOT_WORDS * slot] not in (EMPTY, key):
            slot = (slot + 1) & mask
        at = SLOTS + SLOT_WORDS * slot
        fresh = block[at] == EMPTY
        block[at + 1] = value
        block[at] = key
        return fresh
