"""Describes the exceptions that kernels raise, as text and code that native code can pass to XLA."""

from __future__ import annotations

import ctypes
import threading
import traceback
from typing import Any

from bridge.ffi.native.abi import ERROR


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


_latest = threading.local()


def describe_to_c_string(name: str, *exception: Any) -> int:
    """Address of :func:`describe`'s text as a C string, valid until this thread calls the function again."""
    _latest.text = ctypes.create_string_buffer(describe(name, *exception).encode(errors="replace"))
    return ctypes.addressof(_latest.text)
