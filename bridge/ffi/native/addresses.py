"""Takes the addresses of C strings and of C functions for native code, and reads arrays of words at an address."""

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


def words_at(address: int | None, count: int) -> list[int]:
    """Copies 8-byte words, such as addresses and extents. Where there are none, there need be no address."""
    return list((ctypes.c_int64 * count).from_address(address or 0)) if count else []
