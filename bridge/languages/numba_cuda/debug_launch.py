"""Launches kernels that are compiled with ``debug=True`` and raises their exceptions. Imports numba-cuda."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from numba.cuda.cudadrv import devices

from bridge.languages.launch_shape import LaunchShape
from bridge.languages.numba_cuda.array_parameters import array_launch
from bridge.languages.numba_cuda.cuda_compilation import load_kernel, loaded
from bridge.languages.numba_cuda.device_exceptions import raising
from bridge.languages.numba_cuda.launcher import launch_now
from bridge.signature.array_types import Signature


def debug_launch(name: str, compiled: Any, shape: LaunchShape, signature: Signature) -> Callable[..., None]:
    """A function of device arrays and a stream that launches a kernel, waits for it and raises its exception.

    Args:
        name: The kernel, for errors.
        compiled: The kernel as Numba has compiled it for these types.
        shape: Grid, block and shared memory.
        signature: The types of the call.

    Raises:
        LaunchError: The launch is over a limit of a device.
    """
    handles = () if shape.is_empty else load_kernel(name, compiled, shape)
    launch = array_launch(name, handles, shape, signature.arrays)

    def run(*arguments: Any) -> None:
        *arrays, stream = arguments
        if shape.is_empty:
            return
        ordinal = devices.get_context().device.id
        words = (ctypes.c_int64 * len(launch.blob))(*launch.blob)
        for patch in launch.patches:
            words[patch.word] = arrays[patch.buffer].device_ctypes_pointer.value or 0
        start = ctypes.addressof(words)
        parameters = (ctypes.c_void_p * len(launch.parameters))(*(start + byte for byte in launch.parameters))
        handle, queue = ctypes.c_void_p(handles[ordinal]), ctypes.c_void_p(int(stream))
        with raising(compiled, loaded(compiled, ordinal), int(stream), ordinal):
            launch_now(name, handle, shape, queue, parameters, compiled.cooperative)

    return run
