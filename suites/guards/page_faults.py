"""Notes accesses to forbidden pages of memory, and lets the program go on.

The operating system reports such an access as SIGSEGV, on the thread that made it. Our handler is machine code. If the
address lies in a watched range, it notes address and kind of the access, allows access to the page, and returns: the
instruction then runs again, and succeeds. Any other fault goes to the previous handler, such as Python's faulthandler.

An array lies directly before, or directly after, such pages.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import types

from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.words import call3, load, store

PAGE_BYTES = mmap.PAGESIZE

MISSING = None if sys.platform == "linux" else f"guard pages need Linux, and this is {sys.platform}"
"""Why accesses cannot be noted on this machine; None if they can."""

NO_ACCESS, READ_ONLY, READ_WRITE = 0, 1, 3
"""Protections of pages, as ``mprotect`` takes them."""

UNKNOWN, READ, WRITE = 1, 2, 3
KINDS = ("", "accesses", "reads", "writes")
"""Kinds of accesses, in words. Only x86-64 tells reads from writes."""

_SLOTS = 4096
_START, _END, _NOTES, _SLOT_WORDS = range(4)
_ADDRESS, _KIND, _NOTE_WORDS = range(3)

# siginfo_t and ucontext_t of Linux, in words. The error code of a fault is register 19 of 64-bit x86.
_SI_ADDR = 2
_ERROR_CODE = (40 + 8 * 19) // 8
_IS_WRITE = 2
_HAS_ERROR_CODE = platform.machine() in ("x86_64", "AMD64")

_SA_SIGINFO, _SA_ONSTACK = 0x00000004, 0x08000000


class _Action(ctypes.Structure):
    """``struct sigaction`` of Linux on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


@contextlib.contextmanager
def noting() -> Iterator[None]:
    """Handles the faults of this process inside the ``with`` block, on every thread.

    Raises:
        OSError: The operating system does not accept a handler.
    """
    action = _Action(handler=_handler().address, flags=_SA_SIGINFO | _SA_ONSTACK)
    with _installing:
        _sigaction(ctypes.addressof(action), ctypes.addressof(_previous))
        try:
            yield
        finally:
            _sigaction(ctypes.addressof(_previous), 0)


_table = np.zeros((_SLOTS, _SLOT_WORDS), np.int64)
"""The watched ranges. A slot whose end is 0 is free. The handler reads it on any thread, so the end is written last."""

_used = np.zeros(1, np.int64)
"""How many slots the handler looks at: all later ones were never used."""

_free: list[int] = []
_slots = threading.Lock()
_installing = threading.RLock()
_previous = _Action()


def _take_slot(start: int, end: int, notes: int) -> int:
    with _slots:
        slot = _free.pop() if _free else int(_used[0])
        if slot == _SLOTS:
            raise MemoryError(f"{_SLOTS} ranges of addresses are watched, which is the most. Release some of them.")
        _table[slot, _START], _table[slot, _NOTES] = start, notes
        _table[slot, _END] = end
        _used[0] = max(int(_used[0]), slot + 1)
        return slot


def _free_slot(slot: int) -> None:
    with _slots:
        _table[slot, _END] = 0
        _free.append(slot)


def _sigaction(new: int, old: int) -> None:
    if _libc.sigaction(signal.SIGSEGV, ctypes.c_void_p(new), ctypes.c_void_p(old)):
        raise OSError(ctypes.get_errno(), "sigaction: the operating system accepts no handler of SIGSEGV")


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@functools.cache
def _handler() -> Any:
    """Returns the signal handler as machine code: Python code cannot run at such a moment."""
    table, used = np.int64(_table.ctypes.data), np.int64(_used.ctypes.data)
    previous = np.int64(ctypes.addressof(_previous))
    mprotect, sigaction = np.int64(c_function(_libc.mprotect)), np.int64(c_function(_libc.sigaction))
    page_bytes, segv = np.int64(PAGE_BYTES), np.int64(signal.SIGSEGV)

    @numba.cfunc(types.void(types.int32, types.int64, types.int64), error_model="numpy")
    def handle(number, info, context):
        address = load(info, _SI_ADDR)
        for slot in range(load(used, 0)):
            at = slot * _SLOT_WORDS
            start, end = load(table, at + _START), load(table, at + _END)
            if start <= address < end:
                page = (address - start) // page_bytes
                kind = UNKNOWN
                if _HAS_ERROR_CODE:
                    kind = WRITE if load(context, _ERROR_CODE) & _IS_WRITE else READ
                notes = load(table, at + _NOTES)
                if load(notes, page * _NOTE_WORDS + _KIND) == 0:
                    store(notes, page * _NOTE_WORDS + _ADDRESS, address)
                    store(notes, page * _NOTE_WORDS + _KIND, kind)
                if call3(mprotect, start + page * page_bytes, page_bytes, READ_WRITE) & 0xFFFFFFFF == 0:
                    return
        # Not in a watched range: the instruction runs again, and its fault goes to the previous handler.
        call3(sigaction, segv, previous, 0)

    return handle


_LEAST_GUARD_BYTES, _MOST_GUARD_BYTES = 1 << 20, 1 << 24


class GuardedRegion:
    """Memory of an array of ``size`` bytes, with guard pages on both sides that are as long as the array, or 1 MiB.

    Args:
        size: Bytes of the array; may be 0.
        at_end: Whether the array ends where a guard page begins; otherwise it begins where one ends. Only one of the
            two is exact, because the array need not fill its pages.

    Attributes:
        address: Where the array begins, at a multiple of its elements' size.

    Raises:
        MemoryError: The operating system gives no memory.
    """

    def __init__(self, size: int, *, at_end: bool):
        self.size = size
        self._body_bytes = -(-size // PAGE_BYTES) * PAGE_BYTES
        guard = min(max(_LEAST_GUARD_BYTES, self._body_bytes), _MOST_GUARD_BYTES)
        self._reserved_bytes = self._body_bytes + 2 * guard
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE
        self._start = _libc.mmap(None, self._reserved_bytes, NO_ACCESS, flags, -1, 0)
        if self._start in (None, _MAP_FAILED):
            raise MemoryError(f"mmap: the operating system gives no {self._reserved_bytes} bytes of addresses")
        self._body = self._start + guard
        self.address = self._body + (self._body_bytes - size if at_end else 0)
        self._notes = np.zeros((self._reserved_bytes // PAGE_BYTES, _NOTE_WORDS), np.int64)
        self._slot = _take_slot(self._start, self._start + self._reserved_bytes, int(self._notes.ctypes.data))
        self._protect(READ_WRITE)

    def make_read_only(self) -> None:
        """Makes writes to the array forbidden too."""
        self._protect(READ_ONLY)

    def accesses(self) -> list[tuple[str, int]]:
        """Returns the first access to each page: its kind, and the bytes from the beginning of the array."""
        pages = np.flatnonzero(self._notes[:, _KIND])
        return [(KINDS[self._notes[page, _KIND]], int(self._notes[page, _ADDRESS]) - self.address) for page in pages]

    def release(self) -> None:
        """Frees the memory."""
        _free_slot(self._slot)
        _libc.munmap(self._start, self._reserved_bytes)

    def _protect(self, protection: int) -> None:
        if self._body_bytes and _libc.mprotect(self._body, self._body_bytes, protection):
            raise MemoryError(f"mprotect: the operating system does not change {self._body_bytes} bytes")


_MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE = 0x02, 0x20, 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value
