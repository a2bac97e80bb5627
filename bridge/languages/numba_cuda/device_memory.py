"""Allocates the temporary device arrays that callables make with ``numba.cuda.device_array``. Imports numba-cuda.

Memory is allocated and freed in the order of the callable's stream, by CUDA's own pools. Work that is launched after a
temporary was dropped may reuse its memory, because it also runs after the work that used it. So nothing waits.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from cuda.bindings import driver as cu
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.cudadrv.driver import AutoFreePointer, MemoryPointer

from bridge.ffi.cuda import driver

_KEPT_BYTES = 256 * 2**20
"""Bytes that a device's pool keeps for reuse, until :func:`bridge.release`."""

_pattern: int | None = None


@contextlib.contextmanager
def filled_with(byte: int) -> Iterator[None]:
    """Fills temporaries that any thread makes in the block with this byte, for tests."""
    global _pattern
    previous, _pattern = _pattern, byte
    try:
        yield
    finally:
        _pattern = previous


class StreamMemory:
    """Memory for the temporaries of one stream. Safe to use from several threads.

    Args:
        stream: XLA's stream.
        ordinal: Its device.
    """

    def __init__(self, stream: int, ordinal: int):
        self._stream = cu.CUstream(stream)
        self._ordinal = ordinal
        # Numba's pointers refer to their owner weakly, so the owner is kept here until it is freed.
        self._in_use: dict[int, AutoFreePointer] = {}

    def __call__(self, context: Any, size: int) -> Any:
        """Numba's pointer to new memory; freed when the last array over it is gone."""
        status, pointer = cu.cuMemAllocFromPoolAsync(size, _pool(self._ordinal), self._stream)
        check(status, f"allocating {size} bytes on CUDA device {self._ordinal}")
        if _pattern is not None:
            (status,) = cu.cuMemsetD8Async(pointer, _pattern, size, self._stream)
            check(status, f"filling {size} bytes on CUDA device {self._ordinal}")
        free = functools.partial(self._free, pointer)
        memory = AutoFreePointer(weakref.proxy(context), pointer, size, finalizer=free)
        self._in_use[int(pointer)] = memory
        return memory.own()

    def _free(self, pointer: Any) -> None:
        del self._in_use[int(pointer)]
        cu.cuMemFreeAsync(pointer, self._stream)


_pools: dict[int, Any] = {}


def _pool(ordinal: int) -> Any:
    if ordinal not in _pools:
        properties = cu.CUmemPoolProps()
        properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = ordinal
        status, pool = cu.cuMemPoolCreate(properties)
        check(status, f"creating a memory pool on CUDA device {ordinal}")
        kept = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        (status,) = cu.cuMemPoolSetAttribute(pool, kept, cu.cuuint64_t(_KEPT_BYTES))
        check(status, f"setting up the memory pool of CUDA device {ordinal}")
        _pools.setdefault(ordinal, pool)
    return _pools[ordinal]


def trim() -> None:
    """Frees the memory that nothing uses; :func:`bridge.release` calls it."""
    for ordinal, pool in list(_pools.items()):
        (status,) = cu.cuMemPoolTrimTo(pool, 0)
        check(status, f"freeing memory of CUDA device {ordinal}")


def device_array(context: Any, shape: tuple[int, ...], dtype: Any, pointer_of: Callable[[int], int]) -> Any:
    """A Numba device array over memory that it does not own; ``pointer_of`` maps its size in bytes to the address."""
    strides: list[int] = []
    size = dtype.itemsize
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    memory = MemoryPointer(context, cu.CUdeviceptr(pointer_of(size)), size)
    return DeviceNDArray(shape, tuple(strides), dtype, gpu_data=memory)


def check(status: Any, what: str) -> None:
    """Raises PlatformError or DeviceMemoryError unless a call of CUDA's driver succeeded."""
    if int(status) != 0:
        raise driver.failure(int(status), what)
