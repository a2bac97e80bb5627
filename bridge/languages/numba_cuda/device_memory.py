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

from bridge.errors import PlatformError

Allocate = Callable[[Any, int], Any]
"""Takes a Numba context and a size in bytes; returns a Numba ``MemoryPointer``."""

_KEPT_BYTES = 256 * 2**20

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


class StreamMemory:
    """Memory for the temporaries of one stream: an :data:`Allocate`.

    The memory of a dropped temporary serves the next temporary of its size.

    Args:
        stream: XLA's stream.
        ordinal: Its device.
    """

    def __init__(self, stream: int, ordinal: int):
        self._stream = cu.CUstream(stream)
        self._ordinal = ordinal
        self._free: dict[int, list[Any]] = {}
        self._free_bytes = 0
        # Numba's pointers refer to their owner weakly, so the owner is kept here until it is freed.
        self._in_use: dict[int, AutoFreePointer] = {}

    def __call__(self, context: Any, size: int) -> Any:
        left = self._free.get(size)
        if left:
            pointer = left.pop()
            self._free_bytes -= size
        else:
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

    def _release(self, pointer: Any, address: int, size: int) -> None:
        del self._in_use[address]
        if self._free_bytes + size <= _KEPT_BYTES:
            self._free.setdefault(size, []).append(pointer)
            self._free_bytes += size
        else:
            cu.cuMemFreeAsync(pointer, self._stream)


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
    """Raises PlatformError unless a call of CUDA's driver succeeded."""
    if int(status) != 0:
        raise PlatformError(f"{what} failed: {getattr(status, 'name', status)}")
