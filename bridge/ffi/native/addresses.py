"""Fills memory that native code reads: words, texts and a hash table; and takes the addresses of C functions."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from typing import Any

_kept: list[bytes] = []
_texts: dict[str, int] = {}


def keep(words: Iterable[int]) -> int:
    """Copies 64-bit words into memory that lives as long as the process; returns the address of the first.

    Native code uses them at any time. They are bytes, because Python's garbage collector
    does not look at those: else each collection would take longer with every kernel that was ever called.

    Raises:
        OverflowError: A number does not fit into 64 bits, signed or unsigned.
    """
    return _keep(b"".join(word.to_bytes(8, "little", signed=word < 0) for word in words))


def _keep(content: bytes) -> int:
    _kept.append(content)
    return c_function(ctypes.c_char_p(content))


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    address = _texts.get(text)
    if address is None:
        address = _texts.setdefault(text, _keep(text.encode(errors="replace")))
    return address


def c_function(function: Any) -> int:
    """Address of a C function that ctypes has found or made. If ctypes has made it, the caller must keep it alive."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def words_at(address: int | None, count: int) -> list[int]:
    """Copies 8-byte words, such as addresses and extents. Where there are none, there need be no address."""
    return list((ctypes.c_int64 * count).from_address(address or 0)) if count else []


EMPTY = 0
"""The key of an empty slot."""

MASK, SLOTS, SLOT_WORDS = 0, 1, 2
"""The layout of a block: ``[mask, key 0, value 0, key 1, value 1, ...]``."""

_FIRST_CAPACITY = 256


class NativeTable:
    """A hash table with open addressing and linear probing. Native code on any thread can read it.

    Keys are non-zero signed 64-bit integers, values non-zero addresses. Writers hold a lock, and publish a slot by
    writing its key last. A larger block is published by writing one word. Old blocks stay allocated for their readers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[int, int] = {}
        self._blocks: list[ctypes.Array[ctypes.c_int64]] = []
        self._root = (ctypes.c_int64 * 1)()
        self._publish(_FIRST_CAPACITY)

    @property
    def address(self) -> int:
        """Address of the table for :func:`bridge.ffi.native.words.lookup`; it never changes."""
        return ctypes.addressof(self._root)

    def forget(self) -> None:
        """Makes native code find nothing any more. It takes no lock."""
        self._values = {}
        self._publish(1)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: int) -> bool:
        return key in self._values

    def __setitem__(self, key: int, value: int) -> None:
        if key == EMPTY or value == 0:
            raise ValueError(f"keys and values must not be 0, got key {key} and value {value}")
        with self._lock:
            self._values[key] = value
            capacity = self._blocks[-1][MASK] + 1
            if 2 * len(self._values) > capacity:
                self._publish(4 * capacity)
            else:
                _write(self._blocks[-1], key, value)

    def _publish(self, capacity: int) -> None:
        """Publishes a new block with all values. The capacity is a power of two, and one slot stays empty."""
        block = (ctypes.c_int64 * (SLOTS + SLOT_WORDS * capacity))()
        block[MASK] = capacity - 1
        for key, value in self._values.items():
            _write(block, key, value)
        self._blocks.append(block)
        self._root[0] = ctypes.addressof(block)


def _write(block: ctypes.Array[ctypes.c_int64], key: int, value: int) -> None:
    slot = key & block[MASK]
    while block[SLOTS + SLOT_WORDS * slot] not in (EMPTY, key):
        slot = (slot + 1) & block[MASK]
    at = SLOTS + SLOT_WORDS * slot
    block[at + 1] = value
    block[at] = key
