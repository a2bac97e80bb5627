"""Describes the exceptions that kernels raise, as text that native code can pass to XLA."""

from __future__ import annotations

import ctypes
import threading
import traceback
from typing import Any


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


_latest = threading.local()


def describe_to_c_string(name: str, *exception: Any) -> int:
    """Address of :func:`describe`'s text as a C string, valid until this thread calls the function again."""
    _latest.text = ctypes.create_string_buffer(describe(name, *exception).encode(errors="replace"))
    return ctypes.addressof(_latest.text)
