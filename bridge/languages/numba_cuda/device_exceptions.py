"""Raises in Python what kernels compiled with ``debug=True`` raise on the device. Imports numba-cuda.

Such a kernel writes the number of its exception and the thread to variables of its module. They are read after each
launch. So a launch waits until the kernel is done, and the launches of one kernel on one device run one after the
other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from bridge.languages.numba_cuda.device_memory import check


@contextlib.contextmanager
def raising(compiled: Any, function: Any, stream: int, ordinal: int) -> Iterator[None]:
    """Raises the exception of a kernel that is launched in the block.

    Args:
        compiled: The kernel, compiled with ``debug=True``.
        function: The kernel as Numba has loaded it on this device.
        stream: The stream that it is launched on.
        ordinal: The device. Launches on other devices do not wait: a program may need all devices to go on.
    """
    locks: dict[int, threading.RLock] = vars(compiled).setdefault("_bridge_locks", {})
    with locks.setdefault(ordinal, threading.RLock()):
        number = _Variable(function, "__errcode__")
        number.clear(stream)
        yield
        (status,) = cu.cuStreamSynchronize(stream)
        check(status, f"waiting for {function.name}")
        code = number.read()
        if code == 0:
            return
        number.clear(stream)  # the next launch may be one that Numba itself checks, without waiting
        thread, block = (
            [_Variable(function, f"__{place}{axis}__").read() for axis in "xyz"] for place in ("tid", "ctaid")
        )
    raise _exception(compiled, code, thread, block)


class _Variable:
    """A 32-bit variable of the module of a kernel."""

    def __init__(self, function: Any, name: str):
        symbol = (function.name + name).encode()
        status, self._address, size = cu.cuLibraryGetGlobal(function.module.handle, symbol)
        check(status, f"finding the variable {symbol.decode()}")
        assert size == ctypes.sizeof(ctypes.c_int)

    def clear(self, stream: int) -> None:
        (status,) = cu.cuMemsetD32Async(self._address, 0, 1, stream)
        check(status, "clearing the exception of a kernel")

    def read(self) -> int:
        value = ctypes.c_int()
        (status,) = cu.cuMemcpyDtoH(ctypes.addressof(value), self._address, ctypes.sizeof(value))
        check(status, "reading the exception of a kernel")
        return value.value


def _exception(compiled: Any, code: int, thread: list[int], block: list[int]) -> BaseException:
    """The exception of a number, with the place and the thread in front of its message."""
    kind, arguments, location = compiled.call_helper.get_exception(code)
    place = f"thread {tuple(thread)} of block {tuple(block)}"
    if location is not None:
        function, path, line = location
        place = f"{place}, in {function} ({os.path.abspath(path)}:{line})"
    first, *others = arguments or ("",)
    exception: BaseException = kind(f"{place}: {first}" if arguments else place, *others)
    return exception
