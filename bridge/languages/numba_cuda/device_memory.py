"""Allocates the temporary device arrays that callables make with ``numba.cuda.device_array``. Imports numba-cuda.

Numba allocates with ``cuMemAlloc`` and frees with ``cuMemFree``, which waits for the whole device. While a callable
runs, memory is instead allocated and freed in the order of its stream. Work that is launched after a temporary was
dropped may reuse its memory, because on one stream it also runs after the work that used it. So nothing waits.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from cuda.bindings import driver as cu
from numba.cuda.cudadrv.driver import AutoFreePointer

from bridge.ffi.cuda import driver
from bridge.languages.release import released

Allocate = Callable[[Any, int], Any]
"""Takes a Numba context and a size in bytes; returns a Numba ``MemoryPointer``."""

_KEPT_BYTES = 256 * 2**20
"""The most bytes that all streams together keep for reuse."""

_active = threading.local()
_pattern: int | None = None


@contextlib.contextmanager
def allocating_with(allocate: Allocate) -> Iterator[None]:
    """Makes ``allocate`` provide the memory of device arrays that this thread makes in the block."""
    previous = getattr(_active, "allocate", None)
    _active.allocate = allocate
    try:
        yield
    finally:
        _active.allocate = previous


@contextlib.contextmanager
def filled_with(byte: int) -> Iterator[None]:
    """Fills temporaries that any thread makes in the block with this byte, for tests."""
    global _pattern
    previous, _pattern = _pattern, byte
    try:
        yield
    finally:
        _pattern = previous


def hook(context: Any) -> None:
    """Lets :func:`allocating_with` decide for this Numba context; elsewhere it allocates as before."""
    if hasattr(context, "_bridge_hooked"):
        return
    original = context.memalloc

    def memalloc(size: int) -> Any:
        allocate = getattr(_active, "allocate", None)
        return original(size) if allocate is None else allocate(context, size)

    context.memalloc = memalloc
    context._bridge_hooked = True


class _Kept:
    """Counts the bytes that all streams keep, up to a limit."""

    def __init__(self, most_bytes: int):
        self.bytes = 0
        self._most_bytes = most_bytes
        # A temporary may be dropped, by the garbage collector, while this thread holds the lock.
        self.lock = threading.RLock()

    def add(self, size: int) -> bool:
        """Counts a block of this size; returns False, and does not count it, if it is too much."""
        with self.lock:
            fits = self.bytes + size <= self._most_bytes
            self.bytes += size * fits
            return fits

    def remove(self, size: int) -> None:
        """Counts a block of this size no more."""
        with self.lock:
            self.bytes -= size


_kept = _Kept(_KEPT_BYTES)
_memories: weakref.WeakSet[StreamMemory] = weakref.WeakSet()


class StreamMemory:
    """Memory for the temporaries of one stream: an :data:`Allocate`. Safe to use from several threads.

    The memory of a dropped temporary serves the next temporary of its size, until :func:`bridge.release` frees it.

    Args:
        stream: XLA's stream.
        ordinal: Its device.
    """

    def __init__(self, stream: int, ordinal: int):
        self._stream = cu.CUstream(stream)
        self._ordinal = ordinal
        self._lock = threading.RLock()
        self._free: dict[int, list[Any]] = {}
        # Numba's pointers refer to their owner weakly, so the owner is kept here until it is freed.
        self._in_use: dict[int, AutoFreePointer] = {}
        _memories.add(self)

    def __call__(self, context: Any, size: int) -> Any:
        pointer = self._take(size)
        if pointer is None:
            status, pointer = cu.cuMemAllocFromPoolAsync(size, _pool(self._ordinal), self._stream)
            check(status, f"allocating {size} bytes on CUDA device {self._ordinal}")
        if _pattern is not None and size:
            (status,) = cu.cuMemsetD8Async(pointer, _pattern, size, self._stream)
            check(status, f"filling {size} bytes on CUDA device {self._ordinal}")
        address = int(pointer)
        memory = AutoFreePointer(
            weakref.proxy(context), pointer, size, finalizer=functools.partial(self._release, pointer, address, size)
        )
        self._in_use[address] = memory
        return memory.own()

    def _take(self, size: int) -> Any:
        """A kept block of this size; None if there is none."""
        with self._lock:
            left = self._free.get(size)
            if not left:
                return None
            pointer = left.pop()
        _kept.remove(size)
        return pointer

    def _release(self, pointer: Any, address: int, size: int) -> None:
        del self._in_use[address]
        if _kept.add(size):
            with self._lock:
                self._free.setdefault(size, []).append(pointer)
        else:
            cu.cuMemFreeAsync(pointer, self._stream)

    def free_kept(self) -> None:
        """Frees what is kept for reuse, after the work that the stream has now."""
        with self._lock:
            free, self._free = self._free, {}
        if not free:
            return
        with driver.current(self._ordinal):
            for size, pointers in free.items():
                for pointer in pointers:
                    _kept.remove(size)
                    cu.cuMemFreeAsync(pointer, self._stream)


@released
def _free_kept() -> None:
    for memory in list(_memories):
        memory.free_kept()


@functools.cache
def _pool(ordinal: int) -> Any:
    properties = cu.CUmemPoolProps()
    properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = ordinal
    status, pool = cu.cuMemPoolCreate(properties)
    check(status, f"creating a memory pool on CUDA device {ordinal}")
    return pool


def check(status: Any, what: str) -> None:
    """Raises PlatformError or DeviceMemoryError unless a call of CUDA's driver succeeded."""
    if int(status) != 0:
        raise driver.failure(int(status), what)
