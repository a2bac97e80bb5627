"""Launches Numba-CUDA kernels from Python in microseconds, for callables. Imports numba-cuda.

At each launch Numba types, converts and passes all arguments again, which takes about 25 us. A launcher prepares the
parameters once for each set of argument types and shapes. Each launch then only writes the addresses and calls the
driver. Arguments other than contiguous device arrays and plain numbers are launched by Numba itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba.cuda import types as cuda_types
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.dispatcher import CUDADispatcher

from bridge.errors import PlatformError, RecordingError
from bridge.ffi.cuda import driver
from bridge.languages.launch_shape import launch_shape
from bridge.languages.numba_cuda.array_parameters import array_words
from bridge.languages.numba_cuda.cuda_compilation import load_function, numba_type
from bridge.signature.array_types import ArrayType
from bridge.source.imports import hoist_imports

_PREPARED_KEPT = 1024

_recording = threading.local()
_device = threading.local()


def set_device(ordinal: int | None) -> None:
    """Sets the device of this thread's launches; None to ask Numba at each launch."""
    _device.ordinal = ordinal


@contextlib.contextmanager
def only_on(stream: int) -> Iterator[None]:
    """Refuses launches of this thread on other streams in the block, which the recording would miss.

    Raises:
        RecordingError: In the block, at such a launch.
    """
    _recording.stream = stream
    try:
        yield
    finally:
        _recording.stream = None


class Launcher:
    """A kernel for callables: ``kernel[grid, block, stream, shared](*args)``. It has the dispatcher's attributes."""

    def __init__(self, dispatcher: CUDADispatcher):
        function = hoist_imports(dispatcher.py_func)
        if function is not dispatcher.py_func:
            dispatcher = type(dispatcher)(function, targetoptions=dispatcher.targetoptions)
        self._dispatcher = dispatcher
        self._configured: dict[Any, _Configured] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    def __call__(self, *args: Any) -> Any:
        return self._dispatcher(*args)

    def __getitem__(self, configuration: Any) -> Any:
        if not isinstance(configuration, tuple):
            return self._dispatcher[configuration]
        key = tuple(int(part) if index == 2 else part for index, part in enumerate(configuration))
        configured = self._configured.get(key)
        if configured is None:
            configured = self._configured[key] = _Configured(self._dispatcher, configuration)
        return configured


class _Prepared(threading.local):
    """Launches by argument types. Each thread has its own: the driver reads their parameters without the GIL."""

    def __init__(self) -> None:
        self.launches: dict[Any, tuple[Any, ...]] = {}


class _Configured:
    """A kernel with grid, block, stream and shared memory."""

    def __init__(self, dispatcher: CUDADispatcher, configuration: tuple[Any, ...]):
        grid, block, stream, shared_bytes = (*configuration, 0, 0)[:4]
        shape = launch_shape(dispatcher.py_func.__name__, grid=grid, block=block, shared_mem=shared_bytes)
        self._dispatcher = dispatcher
        self._configuration = configuration
        self._shape = shape
        self._stream = ctypes.c_void_p(int(stream))
        self._local = _Prepared()

    def __call__(self, *args: Any) -> None:
        recording = getattr(_recording, "stream", None)
        if recording is not None and recording != (self._stream.value or 0):
            raise RecordingError(f"{self._dispatcher.py_func.__name__} was launched on another stream")
        prepared = self._local.launches
        ordinal = getattr(_device, "ordinal", None)
        if ordinal is None:
            ordinal = devices.get_context().device.id
        key = (ordinal, *[_type_of(arg) for arg in args])
        if None in key:
            self._dispatcher[self._configuration](*args)
            return
        launch = prepared.get(key)
        if launch is None:
            if len(prepared) >= _PREPARED_KEPT:
                prepared.clear()
            launch = prepared[key] = self._prepare(args, ordinal)
        handle, words, parameters, patches = launch
        for word, arg in zip(patches, args, strict=True):
            words[word] = _address(arg) if type(arg) is DeviceNDArray else _bits(arg)
        (grid_x, grid_y, grid_z), (block_x, block_y, block_z) = self._shape.grid, self._shape.block
        status = _launch()(
            handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, self._shape.shared_bytes,
            self._stream, parameters, None,
        )  # fmt: skip
        if status != 0:
            name = self._dispatcher.py_func.__name__
            raise PlatformError(f"launching {name} failed: {driver.error_text(status)}")

    def _prepare(self, args: tuple[Any, ...], ordinal: int) -> tuple[Any, ...]:
        name = self._dispatcher.py_func.__name__
        compiled = self._dispatcher.compile(tuple(_numba_type(name, arg) for arg in args))
        function = load_function(compiled, ordinal)
        driver.allow_shared_bytes(function, self._shape.shared_bytes)
        blob: list[int] = []
        patches = []
        for arg in args:
            if type(arg) is DeviceNDArray:
                array, address = array_words(arg.dtype.itemsize, arg.shape)
                patches.append(len(blob) + address)
                blob += array
            else:
                patches.append(len(blob))
                blob.append(0)
        words = (ctypes.c_int64 * max(1, len(blob)))(*blob)
        start = ctypes.addressof(words)
        parameters = (ctypes.c_void_p * max(1, len(blob)))(*(start + 8 * index for index in range(len(blob))))
        return ctypes.c_void_p(function), words, parameters, patches


@functools.cache
def _launch() -> Any:
    return driver.library().cuLaunchKernel


def _type_of(arg: Any) -> Any:
    """The type that a prepared launch is valid for; None for an argument that only Numba can pass."""
    kind = type(arg)
    if kind is DeviceNDArray:
        known = arg.__dict__.get("_bridge_type")
        if known is None and arg.is_c_contiguous():
            known = arg._bridge_type = (arg.dtype, arg.shape)
        return known
    return kind if kind is int or kind is float else None


def _numba_type(name: str, arg: Any) -> Any:
    if type(arg) is DeviceNDArray:
        return numba_type(name, ArrayType(str(arg.dtype), (None,) * arg.ndim, writable=True))
    return cuda_types.int64 if type(arg) is int else cuda_types.float64


def _address(array: DeviceNDArray) -> int:
    address = array.__dict__.get("_bridge_address")
    if address is None:
        address = array._bridge_address = array.device_ctypes_pointer.value or 0
    return int(address)


def _bits(number: float) -> int:
    if type(number) is int:
        return number
    return int(np.float64(number).view(np.int64))


_launchers: weakref.WeakKeyDictionary[CUDADispatcher, Launcher] = weakref.WeakKeyDictionary()


def launcher_of(dispatcher: CUDADispatcher) -> Launcher:
    """The launcher of a kernel; the same for each callable that uses it."""
    launcher = _launchers.get(dispatcher)
    if launcher is None:
        launcher = _launchers[dispatcher] = Launcher(dispatcher)
    return launcher


def with_launchers(function: types.FunctionType) -> Callable[..., Any]:
    """The function with the kernels among its globals and closure variables replaced by their launchers."""
    replaced = {
        name: launcher_of(value)
        for name, value in function.__globals__.items()
        if isinstance(value, CUDADispatcher) and name in function.__code__.co_names
    }
    closure = tuple(
        types.CellType(launcher_of(cell.cell_contents)) if _holds_kernel(cell) else cell
        for cell in function.__closure__ or ()
    )
    if not replaced and all(new is old for new, old in zip(closure, function.__closure__ or (), strict=True)):
        return function
    rebuilt = types.FunctionType(
        function.__code__, {**function.__globals__, **replaced}, function.__name__, function.__defaults__, closure
    )
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    return rebuilt


def _holds_kernel(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, CUDADispatcher)
    except ValueError:  # not assigned yet
        return False
