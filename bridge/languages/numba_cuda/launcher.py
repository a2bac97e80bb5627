"""Launches Numba-CUDA kernels from Python in microseconds, for callables. Imports numba-cuda.

At each launch Numba types, converts and passes all arguments again, which takes about 25 us. A launcher prepares the
parameters once for each set of argument types and shapes. Each launch then only writes the addresses and calls the
driver. Arguments other than contiguous device arrays and plain numbers are launched by Numba itself.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.cuda import types as cuda_types
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.dispatcher import CUDADispatcher, _Kernel

from bridge.ffi.cuda import driver
from bridge.languages.launch_shape import LaunchShape, launch_shape
from bridge.languages.numba_cuda.array_parameters import array_words
from bridge.languages.numba_cuda.cuda_compilation import check_launch, compile_now, load_function, loaded, numba_type
from bridge.languages.numba_cuda.device_exceptions import raising
from bridge.languages.numba_cuda.watch import watch_launch
from bridge.signature.array_types import ArrayType
from bridge.source.imports import hoist_imports

_PREPARED_KEPT = 1024
"""The most launches that a configured kernel prepares in a thread."""

_CONFIGURED_KEPT = 1024
"""The most grids, blocks and streams that a kernel keeps its prepared launches for."""

_device = threading.local()


def set_device(ordinal: int | None) -> None:
    """Sets the device of this thread's launches; None to ask Numba at each launch."""
    _device.ordinal = ordinal


_launch_by_numba = _Kernel.launch


@functools.wraps(_launch_by_numba)
def _launch_watched(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
    """Numba's launch of a kernel, by which helpers, other modules and Numba's own functions launch theirs."""
    number = int(getattr(stream, "handle", stream) or 0)
    watch_launch(self, number)
    ordinal = getattr(_device, "ordinal", None)
    if ordinal is None or not self.debug:
        _launch_by_numba(self, args, griddim, blockdim, stream, sharedmem)
        return
    # Numba reads the exception on the default stream, which does not wait for XLA's stream.
    with raising(self, self._codelibrary.get_cufunc(), number, ordinal):
        _launch_by_numba(self, args, griddim, blockdim, stream, sharedmem)


_Kernel.launch = _launch_watched


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
            if len(self._configured) >= _CONFIGURED_KEPT:
                self._configured.clear()
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
        compiled, handle, words, parameters, patches = launch
        watch_launch(compiled, self._stream.value or 0)
        for word, arg in zip(patches, args, strict=True):
            words[word] = _address(arg) if type(arg) is DeviceNDArray else _bits(arg)
        if compiled.debug:
            with raising(compiled, loaded(compiled, ordinal), self._stream.value or 0, ordinal):
                self._launch(compiled, handle, parameters)
        else:
            self._launch(compiled, handle, parameters)

    def _launch(self, compiled: Any, handle: Any, parameters: Any) -> None:
        name = self._dispatcher.py_func.__name__
        launch_now(name, handle, self._shape, self._stream, parameters, compiled.cooperative)

    def _prepare(self, args: tuple[Any, ...], ordinal: int) -> tuple[Any, ...]:
        name = self._dispatcher.py_func.__name__
        compiled = compile_now(self._dispatcher, tuple(_numba_type(name, arg) for arg in args))
        function = load_function(compiled, ordinal)
        check_launch(name, compiled, function, self._shape, ordinal)
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
        return compiled, ctypes.c_void_p(function), words, parameters, patches


def launch_now(name: str, handle: Any, shape: LaunchShape, stream: Any, parameters: Any, cooperative: bool) -> None:
    """Launches a kernel.

    Args:
        name: The kernel, for errors.
        handle: Its function handle, a ``ctypes.c_void_p``.
        shape: Grid, block and shared memory.
        stream: The stream, a ``ctypes.c_void_p``.
        parameters: The addresses of its parameters, a ``ctypes`` array.
        cooperative: Whether the blocks wait for each other.

    Raises:
        PlatformError: CUDA refuses the launch.
        DeviceMemoryError: The device has too little memory for it.
    """
    ordinary, all_at_once = _launches()
    (grid_x, grid_y, grid_z), (block_x, block_y, block_z) = shape.grid, shape.block
    arguments = (
        handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, shape.shared_bytes, stream, parameters,
    )  # fmt: skip
    status = all_at_once(*arguments) if cooperative else ordinary(*arguments, None)
    if status != 0:
        raise driver.failure(status, f"launching {name}")


@functools.cache
def _launches() -> tuple[Any, Any]:
    return driver.library().cuLaunchKernel, driver.library().cuLaunchCooperativeKernel


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


def launcher_of(dispatcher: CUDADispatcher) -> Launcher:
    """The launcher of a kernel; the same for each callable that uses it. It lives as long as the kernel."""
    known: dict[str, Any] = vars(dispatcher)
    launcher: Launcher | None = known.get("_bridge_launcher")
    if launcher is None:
        launcher = known.setdefault("_bridge_launcher", Launcher(dispatcher))
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
