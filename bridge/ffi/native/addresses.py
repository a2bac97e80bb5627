"""Takes the addresses of C strings and of C functions for native code, and reads arrays of words at an address."""

from __future__ import annotations

import ctypes
from typing import Any

from bridge.ffi.native.lasting import keep

_texts: dict[str, int] = {}


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    address = _texts.get(text)
    if address is None:
        encoded = text.encode() + b"\0"
        words = memoryview(encoded.ljust(-(-len(encoded) // 8) * 8, b"\0")).cast("q")
        address = _texts.setdefault(text, keep(words.tolist()))
    return address


def c_function(function: Any) -> int:
    """Address of a C function that ctypes has found or made. If ctypes has made it, the caller must keep it alive."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def words_at(address: int | None, count: int) -> list[int]:
    """Copies 8-byte words, such as addresses and extents. Where there are none, there need be no address."""
    return list((ctypes.c_int64 * count).from_address(address or 0)) if count else []
