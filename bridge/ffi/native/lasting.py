"""Copies words into memory that lives as long as the process, where native code reads them at any time.

The words lie in large blocks. Python's garbage collector looks at each object that may refer to others, and a ctypes
array is one. With an array for each plan, collections would take longer with each kernel that was ever called.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

_BLOCK_WORDS = 1 << 13
_WORD_BYTES = 8


class LastingMemory:
    """Hands out addresses of words in blocks that are never freed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: list[ctypes.Array[ctypes.c_int64]] = []
        self._used = _BLOCK_WORDS

    def keep(self, words: Sequence[int]) -> int:
        """Copies 64-bit words; returns the address of the first. No words have an address of their own too."""
        count = max(1, len(words))
        with self._lock:
            if not self._blocks or self._used + count > len(self._blocks[-1]):
                self._blocks.append((ctypes.c_int64 * max(count, _BLOCK_WORDS))())
                self._used = 0
            block, start = self._blocks[-1], self._used
            self._used += count
        block[start : start + len(words)] = [*words]
        return ctypes.addressof(block) + start * _WORD_BYTES


_MEMORY = LastingMemory()

keep = _MEMORY.keep
"""Copies words into the memory of this process."""
