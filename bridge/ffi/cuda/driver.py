"""Calls the CUDA driver library: from Python through ctypes, and from the native code that executes plans."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bridge.errors import BridgeError, DeviceMemoryError, PlatformError
from bridge.ffi.cuda.devices import Limits
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import device, poison


@functools.cache
def library() -> ctypes.CDLL:
    """The driver library.

    Raises:
        PlatformError: This machine has none.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        what = "the CUDA driver library could not be loaded. Install the NVIDIA driver to run CUDA kernels."
        raise PlatformError(what) from error


def error_text(status: int) -> str:
    """CUDA's name and description of a status, such as ``CUDA_ERROR_INVALID_VALUE (invalid argument)``."""
    texts = []
    for function in (library().cuGetErrorName, library().cuGetErrorString):
        text = ctypes.c_char_p()
        if function(ctypes.c_int(status), ctypes.byref(text)) == 0 and text.value is not None:
            texts.append(text.value.decode())
    return f"{texts[0]} ({texts[1]})" if len(texts) == 2 else f"CUDA error {status}"


# Values of CUfunction_attribute and CUdevice_attribute in cuda.h.
_DEVICE_MULTIPROCESSORS, _DEVICE_COOPERATIVE_LAUNCH = 16, 95
_FUNCTION_MAX_THREADS, _FUNCTION_SHARED_BYTES, _FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 0, 1, 8
_DEVICE_BLOCK, _DEVICE_GRID, _DEVICE_SHARED_BYTES_OPT_IN, _DEVICE_CAPABILITY = (2, 3, 4), (5, 6, 7), 97, (75, 76)


def failure(status: int, what: str) -> BridgeError:
    """The error of a call of the driver that did not succeed: one of its own if the memory of the device is used up."""
    if status == device.OUT_OF_MEMORY:
        return DeviceMemoryError(f"{what} failed: {error_text(status)}. Use smaller arrays or temporaries.")
    return PlatformError(f"{what} failed: {error_text(status)}")


def _check(status: int, what: str) -> None:
    if status != 0:
        raise failure(status, what)


def _ask(kind: Any, function: str, what: str, *args: Any) -> Any:
    """The value that a function of the driver writes to its first argument; ``what`` names the call in errors."""
    value = kind()
    _check(getattr(library(), function)(ctypes.byref(value), *args), what)
    return value.value


def _device(ordinal: int) -> ctypes.c_int:
    _check(library().cuInit(0), "initialising CUDA")
    return ctypes.c_int(_ask(ctypes.c_int, "cuDeviceGet", f"finding CUDA device {ordinal}", ctypes.c_int(ordinal)))


def compute_capability(ordinal: int) -> int:
    """The compute capability of a device, as in the names of architectures: 90 for ``sm_90``."""
    major, minor = (_device_attribute(number, ordinal) for number in _DEVICE_CAPABILITY)
    return 10 * major + minor


@contextlib.contextmanager
def current(ordinal: int) -> Iterator[None]:
    """Makes the primary context of a device current in the block. XLA uses the same context."""
    # The reference is never released, so the context lives as long as the process, as it does for XLA.
    context = _ask(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", "finding a CUDA context", _device(ordinal))
    _check(library().cuCtxPushCurrent_v2(ctypes.c_void_p(context)), "entering a CUDA context")
    try:
        yield
    finally:
        library().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


@functools.lru_cache(maxsize=1024)
def load_kernel(image: bytes, symbol: str) -> int:
    """The ``CUkernel`` of a function in a compiled image (a cubin), which serves all devices of its architecture.

    Raises:
        PlatformError: The image cannot be loaded, or has no such function.
    """
    what, options = f"loading the machine code of {symbol}", (None, None, 0, None, None, 0)
    loaded = _ask(ctypes.c_void_p, "cuLibraryLoadData", what, image, *options)
    what = f"finding the kernel {symbol}"
    return int(_ask(ctypes.c_void_p, "cuLibraryGetKernel", what, ctypes.c_void_p(loaded), symbol.encode()))


def load_function(kernel: int) -> int:
    """The ``CUfunction`` of a ``CUkernel`` in the current context, loaded now, so that no launch has to load it."""
    return int(_ask(ctypes.c_void_p, "cuKernelGetFunction", "loading a CUDA kernel", ctypes.c_void_p(int(kernel))))


def _function_attribute(function: int, number: int) -> int:
    what = "reading an attribute of a CUDA kernel"
    return int(_ask(ctypes.c_int, "cuFuncGetAttribute", what, ctypes.c_int(number), ctypes.c_void_p(function)))


def _device_attribute(number: int, ordinal: int) -> int:
    what = f"reading a limit of CUDA device {ordinal}"
    return int(_ask(ctypes.c_int, "cuDeviceGetAttribute", what, ctypes.c_int(number), _device(ordinal)))


def static_shared_bytes(function: int) -> int:
    """Bytes of shared memory of a block that the kernel itself declares."""
    return _function_attribute(function, _FUNCTION_SHARED_BYTES)


_sharing = threading.Lock()


def allow_shared_bytes(function: int, size: int) -> None:
    """Lets a kernel be launched with this much dynamic shared memory. CUDA requires this call for more than 48 KiB.

    What is allowed never falls: another launch of the kernel, which shares the function, may need more.
    """
    with _sharing:
        if size <= _function_attribute(function, _FUNCTION_MAX_DYNAMIC_SHARED_BYTES):
            return
        status = library().cuFuncSetAttribute(
            ctypes.c_void_p(function), ctypes.c_int(_FUNCTION_MAX_DYNAMIC_SHARED_BYTES), ctypes.c_int(size)
        )
    _check(status, f"asking for {size} bytes of dynamic shared memory")


def limits(function: int, ordinal: int) -> Limits:
    """The limits of a launch of this function on this device."""
    block_x, block_y, block_z = (_device_attribute(number, ordinal) for number in _DEVICE_BLOCK)
    grid_x, grid_y, grid_z = (_device_attribute(number, ordinal) for number in _DEVICE_GRID)
    return Limits(
        block_threads=_function_attribute(function, _FUNCTION_MAX_THREADS),
        block=(block_x, block_y, block_z),
        grid=(grid_x, grid_y, grid_z),
        shared_bytes=_device_attribute(_DEVICE_SHARED_BYTES_OPT_IN, ordinal),
    )


def most_cooperative_blocks(function: int, ordinal: int, block_threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel run at once on a device; 0 if it has no cooperative launches.

    Args:
        function: The kernel on this device, whose context is current.
        ordinal: The device.
        block_threads: Threads of a block.
        shared_bytes: Dynamic shared memory of a block.
    """
    if not _device_attribute(_DEVICE_COOPERATIVE_LAUNCH, ordinal):
        return 0
    what = "counting the blocks of a CUDA kernel that run at once"
    about = ctypes.c_void_p(function), ctypes.c_int(block_threads), ctypes.c_size_t(shared_bytes)
    blocks = _ask(ctypes.c_int, "cuOccupancyMaxActiveBlocksPerMultiprocessor", what, *about)
    return int(blocks) * _device_attribute(_DEVICE_MULTIPROCESSORS, ordinal)


def read(address: int, size: int, stream: int) -> bytes:
    """Copies memory of the current device to the host, once the work of a stream is done."""
    content, source = ctypes.create_string_buffer(size), ctypes.c_uint64(address)
    _check(library().cuStreamSynchronize(ctypes.c_void_p(stream)), "waiting for a GPU")
    _check(library().cuMemcpyDtoH_v2(content, source, ctypes.c_size_t(size)), "copying from a GPU")
    return content.raw


def parameter_sizes(function: int) -> list[int] | None:
    """Bytes of each parameter of a kernel, in order; None if the driver is older than CUDA 12.4 and cannot tell."""
    if not hasattr(library(), "cuFuncGetParamInfo"):
        return None
    sizes: list[int] = []
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    while (
        library().cuFuncGetParamInfo(
            ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)
        )
        == 0
    ):
        sizes.append(size.value)
    return sizes


ILLEGAL_ADDRESS = 700
"""``CUDA_ERROR_ILLEGAL_ADDRESS``."""


@device.DESCRIBE
def _describe(status: int, name: int) -> int:
    kernel = ctypes.string_at(name).decode()
    return c_string(f"launching {kernel} failed: {error_text(status)}")


def driver_words() -> int:
    """Address of the words for :func:`bridge.ffi.plans.device.make_execute`."""
    return device.driver_words(c_function(library().cuLaunchKernelEx), c_function(_describe))


@device.DESCRIBE
def _describe_fault(status: int, name: int) -> int:
    reason = ": it reads or writes outside of its arrays" if status == ILLEGAL_ADDRESS else ""
    text = f"{ctypes.string_at(name).decode()} failed on the GPU: {error_text(status)}{reason}"
    return c_string(f"{text}. compute-sanitizer names the line.")


def fill_and_wait(execute: Callable[..., Any]) -> Any:
    """Native ``(frame, plan) -> error`` that fills the outputs on XLA's stream, executes and waits for the kernel."""
    fill = poison.stream_fill(c_function(library().cuMemsetD8Async), c_function(_describe))
    wait = poison.stream_wait(c_function(library().cuStreamSynchronize), c_function(_describe_fault))
    return poison.fill_before(execute, fill, wait, on_stream=True)
