"""Patches Numba-CUDA, when the first callable or the first kernel with ``debug=True`` runs. Imports numba-cuda.

Numba-CUDA (as of 0.30) has no hooks for what a callable needs. So four of its functions ask the work that a thread does
for the bridge, and do as before in threads that do none:

- ``Context.memalloc`` allocates device arrays with ``cuMemAlloc``, and they are freed with ``cuMemFree``, which waits
  for the whole device. A callable allocates its temporaries in the order of its stream, and a recording allocates
  none.
- ``_Kernel.launch`` launches a kernel. A recording notes the launch instead. A kernel with ``debug=True`` writes its
  exception to a variable, which Numba reads on the default stream, and this one does not wait for XLA's stream.
- ``CUDADispatcher.__getitem__`` takes no lists, and its launches no NumPy integers.
- The ``driver`` object calls the driver library. A recording refuses what is no launch, such as a copy.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from numba.cuda.cudadrv.driver import Context, driver
from numba.cuda.dispatcher import CUDADispatcher, _Kernel

from bridge.languages.launch_shape import launch_shape


class Work(Protocol):
    """What a thread does for the bridge."""

    def allocate(self, context: Any, size: int) -> Any:
        """Numba's pointer to new memory of ``size`` bytes, for a device array."""

    def launch(self, kernel: Any, arguments: Any, grid: Any, block: Any, stream: Any, shared_bytes: int) -> None:
        """Launches a compiled kernel, or notes it."""

    def call_driver(self, function: str) -> None:
        """Raises an error if Numba may not call this function of the driver now."""


_thread = threading.local()


@contextlib.contextmanager
def working(work: Work) -> Iterator[None]:
    """Makes Numba-CUDA ask ``work`` in this thread inside the block."""
    patch()
    previous, _thread.work = getattr(_thread, "work", None), work
    try:
        yield
    finally:
        _thread.work = previous


class _AskingDriver(type(driver)):  # type: ignore[misc]
    def __getattribute__(self, name: str) -> Any:
        work: Work | None = getattr(_thread, "work", None)
        if work is not None and name.startswith("cu"):
            work.call_driver(name)
        return super().__getattribute__(name)


launch_by_numba = _Kernel.launch
"""Numba's own launch."""


@functools.cache
def patch() -> None:
    """Patches Numba-CUDA once."""
    allocate_by_numba, configure_by_numba = Context.memalloc, CUDADispatcher.__getitem__

    def memalloc(self: Any, bytesize: int) -> Any:
        work: Work | None = getattr(_thread, "work", None)
        return allocate_by_numba(self, bytesize) if work is None else work.allocate(self, bytesize)

    def launch(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        work: Work | None = getattr(_thread, "work", None)
        if work is None:
            launch_by_numba(self, args, griddim, blockdim, stream, sharedmem)
        else:
            work.launch(self, args, griddim, blockdim, stream, sharedmem)

    def getitem(self: Any, configuration: Any) -> Any:
        if getattr(_thread, "work", None) is None or not isinstance(configuration, tuple) or len(configuration) < 2:
            return configure_by_numba(self, configuration)
        grid, block, stream, shared_bytes = (*configuration, 0, 0)[:4]
        shape = launch_shape(self.py_func.__name__, grid=grid, block=block, shared_mem=shared_bytes)
        return configure_by_numba(self, (shape.grid, shape.block, stream, shape.shared_bytes))

    Context.memalloc, _Kernel.launch, CUDADispatcher.__getitem__ = memalloc, launch, getitem
    driver.__class__ = _AskingDriver
