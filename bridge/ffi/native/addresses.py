"""Takes the addresses of C strings and of C functions, for native code."""

from __future__ import annotations

import ctypes
from typing import Any

_texts: dict[str, ctypes.Array[ctypes.c_char]] = {}


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    return ctypes.addressof(_texts.setdefault(text, ctypes.create_string_buffer(text.encode())))


def c_function(function: Any) -> int:
    """Address of a C function that ctypes has found or made. If ctypes has made it, the caller must keep it alive."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
