"""Watches what a thread does with CUDA while a function is recorded, so that a recording misses nothing.

Only launches on the recorded stream are part of a recording. Numba-CUDA launches kernels in one place, and calls the
driver through one object. Both are watched here. While a thread records, its launches are noted or refused, and so is
every call of the driver that is not known to do no work on a device.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from numba.cuda.cudadrv.driver import driver

from bridge.errors import RecordingError

_HARMLESS = (
    "cuCtxGet", "cuCtxPop", "cuCtxPush", "cuCtxSetCurrent", "cuDevice", "cuDriverGet", "cuEventDestroy",
    "cuFunc", "cuGetError", "cuInit", "cuIpcClose", "cuKernel", "cuLibrary", "cuLink", "cuMemFree", "cuMemGet",
    "cuMemHostUnregister", "cuModule", "cuOccupancy", "cuPointerGet", "cuStreamDestroy", "cuStreamGet",
)  # fmt: skip
"""What the names of driver functions begin with that neither queue work nor wait for any.

The garbage collector may free memory at any time, so this is allowed too.
"""

_active = threading.local()


class Watch:
    """What a thread has done while it records.

    Attributes:
        stream: The stream that is recorded.
        kernels: The kernels that were launched on it, in order, as Numba has compiled them.
        refused: What cannot be recorded; None if there was no such thing.
    """

    def __init__(self, stream: int):
        self.stream = stream
        self.kernels: list[Any] = []
        self.refused: str | None = None

    def refuse(self, what: str) -> None:
        """Notes what cannot be recorded. The function may catch the error; the recording is refused all the same.

        Raises:
            RecordingError: Always.
        """
        self.refused = self.refused or what
        raise RecordingError(what)


@contextlib.contextmanager
def watching(stream: int) -> Iterator[Watch]:
    """Watches this thread in the block.

    Args:
        stream: The stream that is recorded.
    """
    if not isinstance(driver, _WatchedDriver):
        driver.__class__ = _WatchedDriver
    _active.watch = watch = Watch(stream)
    try:
        yield watch
    finally:
        _active.watch = None


def watch_launch(compiled: Any, stream: int) -> None:
    """Notes a launch of this thread if it is watched.

    Args:
        compiled: The kernel, as Numba has compiled it.
        stream: The stream that it is launched on.

    Raises:
        RecordingError: The launch is not part of the recording.
    """
    watch: Watch | None = getattr(_active, "watch", None)
    if watch is None:
        return
    if stream != watch.stream:
        watch.refuse(f"{compiled.entry_name} was launched on another stream")
    if compiled.debug:
        watch.refuse(f"{compiled.entry_name} is compiled with debug=True, so each launch waits to read its exception")
    watch.kernels.append(compiled)


class _WatchedDriver(type(driver)):  # type: ignore[misc]
    """Numba's access to the functions of the driver."""

    def __getattribute__(self, name: str) -> Any:
        watch: Watch | None = getattr(_active, "watch", None)
        if watch is not None and name.startswith("cu") and not name.startswith(_HARMLESS):
            watch.refuse(f"Numba-CUDA called {name}, which is no launch")
        return super().__getattribute__(name)
