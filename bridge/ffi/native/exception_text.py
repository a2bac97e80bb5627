"""Describes exceptions as text and code, and gives them to XLA as errors of a call."""

from __future__ import annotations

import ctypes
import traceback
from typing import Any

from bridge.ffi.native.abi import ERROR, header

# Laid out at import, so that a header which lacks one of them is refused there. Any: ctypes adds their fields.
_FRAME: Any = header.struct("XLA_FFI_CallFrame")
_ERROR_ARGS: Any = header.struct("XLA_FFI_Error_Create_Args")
_API: Any = header.struct("XLA_FFI_Api")
_CREATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def describe(name: str, kind: type[BaseException], value: Any = None, trace: Any = None) -> str:
    """Describes the exception of a kernel in one line, with file and line if they are known.

    Args:
        name: The kernel.
        kind: The type of the exception.
        value: The exception, or the arguments to make it from, as Python's C API keeps them.
        trace: Its traceback.
    """
    if not isinstance(value, BaseException):
        value = kind(*value) if isinstance(value, tuple) else kind() if value is None else kind(value)
    frames = traceback.extract_tb(trace)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{name} raised {''.join(traceback.format_exception_only(value)).strip()}{where}"


def error_code(error: BaseException | type[BaseException], otherwise: int = ERROR.INTERNAL) -> int:
    """XLA's code for an exception or its type: what says that memory is missing has one of its own.

    Args:
        error: The exception, or its type.
        otherwise: The code of any other one.
    """
    kind = error if isinstance(error, type) else type(error)
    # CUDA's status, in an error of Numba.
    exhausted = issubclass(kind, MemoryError) or "CUDA_ERROR_OUT_OF_MEMORY" in str(error)
    return int(ERROR.RESOURCE_EXHAUSTED if exhausted else otherwise)


def create_error(frame_address: int, text: str, code: int = ERROR.INTERNAL) -> int:
    """The address of a new error that a handler returns to XLA, made in Python: for errors that are rare.

    Args:
        frame_address: The call frame.
        text: What the user reads.
        code: One of XLA's error codes.
    """
    content = ctypes.create_string_buffer(text.encode(errors="replace"))
    args = _ERROR_ARGS(struct_size=ERROR.BYTES, message=ctypes.addressof(content), errc=code)
    create = _API.from_address(_FRAME.from_address(frame_address).api).XLA_FFI_Error_Create
    return int(_CREATE(create)(ctypes.addressof(args)))
