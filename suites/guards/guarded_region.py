"""Holds one array directly before, or directly after, pages that nobody may touch."""

from __future__ import annotations

import ctypes

from suites.guards.page_faults import NO_ACCESS, PAGE_BYTES, READ_ONLY, READ_WRITE, Watched

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
        self._body_bytes = _whole_pages(size)
        guard = min(max(_LEAST_GUARD_BYTES, self._body_bytes), _MOST_GUARD_BYTES)
        self._reserved_bytes = self._body_bytes + 2 * guard
        self._start = _reserve(self._reserved_bytes)
        self._body = self._start + guard
        self.address = self._body + (self._body_bytes - size if at_end else 0)
        self._watched = Watched(self._start, self._reserved_bytes)
        self._protect(READ_WRITE)

    def fill(self, byte: int) -> None:
        """Fills the array with a byte."""
        ctypes.memset(self.address, byte, self.size)

    def copy_from(self, address: int) -> None:
        """Copies the array from elsewhere."""
        ctypes.memmove(self.address, address, self.size)

    def copy_to(self, address: int) -> None:
        """Copies the array to elsewhere."""
        ctypes.memmove(address, self.address, self.size)

    def make_read_only(self) -> None:
        """Makes a write to the array a fault too."""
        self._protect(READ_ONLY)

    def accesses(self) -> list[tuple[str, int]]:
        """Returns the accesses that were noted: the kind, and the bytes from the beginning of the array."""
        return [(kind, address - self.address) for kind, address in self._watched.notes()]

    def release(self) -> None:
        """Gives the memory back."""
        self._watched.release()
        _libc.munmap(self._start, self._reserved_bytes)

    def _protect(self, protection: int) -> None:
        if self._body_bytes:
            _mprotect(self._body, self._body_bytes, protection)


def _whole_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE = 0x02, 0x20, 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value


def _reserve(size: int) -> int:
    address = _libc.mmap(None, size, NO_ACCESS, _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    if address in (None, _MAP_FAILED):
        raise MemoryError(f"mmap: the operating system gives no {size} bytes of addresses")
    return int(address)


def _mprotect(address: int, size: int, protection: int) -> None:
    if _libc.mprotect(address, size, protection):
        raise MemoryError(f"mprotect: the operating system does not change {size} bytes to protection {protection}")
