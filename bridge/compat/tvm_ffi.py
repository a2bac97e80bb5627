"""Reads the error that a function of TVM-FFI raised, whose layout is public in C++ alone.

- `TVMFFIErrorCell`: Follows 24 bytes of TVMFFIObject in an error. A C function that finds it would do.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from bridge.compat.library import Library, reasons

LIBRARY = Library("apache-tvm-ffi", "0.1", "0.1", reasons(__doc__))


class _ErrorCell(ctypes.Structure):
    """An error: ``TVMFFIObject`` of c_api.h, and the start of ``TVMFFIErrorCell``."""

    _fields_ = (
        ("object", ctypes.c_char * 24),
        ("kind", ctypes.c_void_p),
        ("kind_size", ctypes.c_size_t),
        ("message", ctypes.c_void_p),
        ("message_size", ctypes.c_size_t),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """The C functions of TVM-FFI.

    Raises:
        AbiError: An error that is raised now does not have the sizes of its parts where the bridge looks for them.
    """
    import tvm_ffi

    functions = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    functions.TVMFFIErrorSetRaisedFromCStr(b"ValueError", b"a probe")
    with _moved(functions) as cell:
        if cell is None or (cell.kind_size, cell.message_size) != (len("ValueError"), len("a probe")):
            raise LIBRARY.changed("an error has its kind and message in another place")
    return functions


def raised() -> str | None:
    """Kind and message of the error that TVM-FFI keeps for this thread, which is gone then; None if there is none."""
    with _moved(library()) as cell:
        if cell is None:
            return None
        parts = (cell.kind, cell.kind_size), (cell.message, cell.message_size)
        return ": ".join(ctypes.string_at(*part).decode(errors="replace") for part in parts)


@contextlib.contextmanager
def _moved(functions: Any) -> Iterator[_ErrorCell | None]:
    handle = ctypes.c_void_p()
    functions.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
    try:
        yield _ErrorCell.from_address(handle.value) if handle.value else None
    finally:
        if handle.value:
            functions.TVMFFIObjectDecRef(handle)
