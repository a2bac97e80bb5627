"""Calls the CUDA driver library through ctypes: loads kernels, and reads attributes of kernels and devices."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections.abc import Iterator

from bridge.errors import BridgeError, DeviceMemoryError, PlatformError
from bridge.ffi.cuda.limits import Limits
from bridge.ffi.plans.driver_status import OUT_OF_MEMORY

_NAMES = {"linux": ("libcuda.so.1", "libcuda.so"), "win32": ("nvcuda.dll",)}


@functools.cache
def library() -> ctypes.CDLL:
    """The driver library.

    Raises:
        PlatformError: This machine has none.
    """
    for name in _NAMES.get(sys.platform, ()):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise PlatformError("the CUDA driver library could not be loaded. Install the NVIDIA driver to run CUDA kernels.")


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
    if status == OUT_OF_MEMORY:
        return DeviceMemoryError(f"{what} failed: {error_text(status)}. Use smaller arrays or temporaries.")
    return PlatformError(f"{what} failed: {error_text(status)}")


def _check(status: int, what: str) -> None:
    if status != 0:
        raise failure(status, what)


def _device(ordinal: int) -> ctypes.c_int:
    device = ctypes.c_int()
    _check(library().cuInit(0), "initialising CUDA")
    _check(library().cuDeviceGet(ctypes.byref(device), ctypes.c_int(ordinal)), f"finding CUDA device {ordinal}")
    return device


def compute_capability(ordinal: int) -> int:
    """The compute capability of a device, as in the names of architectures: 90 for ``sm_90``."""
    major, minor = (_device_attribute(number, ordinal) for number in _DEVICE_CAPABILITY)
    return 10 * major + minor


@contextlib.contextmanager
def current(ordinal: int) -> Iterator[None]:
    """Makes the primary context of a device current in the block. XLA uses the same context."""
    context, popped = ctypes.c_void_p(), ctypes.c_void_p()
    # The reference is never released, so the context lives as long as the process, as it does for XLA.
    _check(library().cuDevicePrimaryCtxRetain(ctypes.byref(context), _device(ordinal)), "finding a CUDA context")
    _check(library().cuCtxPushCurrent_v2(context), "entering a CUDA context")
    try:
        yield
    finally:
        library().cuCtxPopCurrent_v2(ctypes.byref(popped))


def used_bytes(ordinal: int) -> int:
    """The memory of a device that is in use, by all processes.

    Raises:
        PlatformError: The device cannot be asked.
    """
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with current(ordinal):
        status = library().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    _check(status, f"asking CUDA device {ordinal} for its free memory")
    return total.value - free.value


@functools.lru_cache(maxsize=1024)
def load_kernel(image: bytes, symbol: str) -> int:
    """The ``CUkernel`` of a function in a compiled image (a cubin), which serves all devices of its architecture.

    Raises:
        PlatformError: The image cannot be loaded, or has no such function.
    """
    loaded, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    status = library().cuLibraryLoadData(ctypes.byref(loaded), image, None, None, 0, None, None, 0)
    _check(status, f"loading the machine code of {symbol}")
    _check(library().cuLibraryGetKernel(ctypes.byref(kernel), loaded, symbol.encode()), f"finding the kernel {symbol}")
    assert kernel.value is not None
    return kernel.value


def load_function(kernel: int) -> int:
    """The ``CUfunction`` of a ``CUkernel`` in the current context, loaded now, so that no launch has to load it."""
    function = ctypes.c_void_p()
    status = library().cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(int(kernel)))
    _check(status, "loading a CUDA kernel")
    assert function.value is not None
    return function.value


def function_name(function: int) -> str:
    """The name of a kernel in its machine code.

    Raises:
        PlatformError: The driver is older than CUDA 12.3.
    """
    name = ctypes.c_char_p()
    if not hasattr(library(), "cuFuncGetName"):
        raise PlatformError("the CUDA driver does not tell the names of kernels. Install one for CUDA 12.3 or later.")
    _check(library().cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(function)), "reading the name of a CUDA kernel")
    assert name.value is not None
    return name.value.decode()


def _function_attribute(function: int, attribute: int) -> int:
    value = ctypes.c_int()
    _check(
        library().cuFuncGetAttribute(ctypes.byref(value), ctypes.c_int(attribute), ctypes.c_void_p(function)),
        "reading an attribute of a CUDA kernel",
    )
    return value.value


def _device_attribute(number: int, ordinal: int) -> int:
    value = ctypes.c_int()
    status = library().cuDeviceGetAttribute(ctypes.byref(value), ctypes.c_int(number), _device(ordinal))
    _check(status, f"reading a limit of CUDA device {ordinal}")
    return value.value


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
    blocks = ctypes.c_int()
    status = library().cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(blocks), ctypes.c_void_p(function), ctypes.c_int(block_threads), ctypes.c_size_t(shared_bytes)
    )
    _check(status, "counting the blocks of a CUDA kernel that run at once")
    return blocks.value * _device_attribute(_DEVICE_MULTIPROCESSORS, ordinal)


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
