"""Temporary device arrays of callables: what ``numba.cuda.device_array`` gets while a callable runs or is recorded.

Numba allocates with ``cuMemAlloc`` and frees with ``cuMemFree``, which waits for the whole device. While a callable runs,
memory comes from a pool in stream order instead: it is taken when the stream reaches the allocation and given back when the
stream has passed everything queued before the array was dropped. So a temporary lives until the work that uses it is done,
and neither side waits.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from bridge.errors import PlatformError

Allocate = Callable[[Any, int], Any]
"""From a Numba context and a size in bytes to a Numba ``MemoryPointer``."""

_POOL_KEEPS_BYTES = 256 * 2**20

_active = threading.local()


@contextlib.contextmanager
def allocating_with(allocate: Allocate) -> Iterator[None]:
    """Device arrays that this thread makes in the block get their memory from ``allocate``."""
    previous = getattr(_active, "allocate", None)
    _active.allocate = allocate
    try:
        yield
    finally:
        _active.allocate = previous


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


def in_stream_order(stream: int, ordinal: int) -> Allocate:
    """Allocation from the device's pool, ordered with the work on ``stream``."""

    def allocate(context: Any, size: int) -> Any:
        from cuda.bindings import driver as cu
        from numba.cuda.cudadrv.driver import AutoFreePointer

        status, pointer = cu.cuMemAllocFromPoolAsync(size, _pool(ordinal), cu.CUstream(stream))
        check(status, f"allocating {size} bytes on CUDA device {ordinal}")

        def free() -> None:
            cu.cuMemFreeAsync(pointer, cu.CUstream(stream))

        return AutoFreePointer(weakref.proxy(context), pointer, size, finalizer=free).own()

    return allocate


@functools.cache
def _pool(ordinal: int) -> Any:
    from cuda.bindings import driver as cu

    properties = cu.CUmemPoolProps()
    properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = ordinal
    status, pool = cu.cuMemPoolCreate(properties)
    check(status, f"creating a memory pool on CUDA device {ordinal}")
    threshold = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(
        cu.cuMemPoolSetAttribute(pool, threshold, cu.cuuint64_t(_POOL_KEEPS_BYTES))[0],
        f"configuring a memory pool on CUDA device {ordinal}",
    )
    return pool


def check(status: Any, what: str) -> None:
    """Raises PlatformError unless a call of CUDA's driver succeeded."""
    if int(status) != 0:
        raise PlatformError(f"{what} failed: {getattr(status, 'name', status)}")
