"""Finds the shared library that holds a loaded function, for languages whose kernels call C functions."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os


def file_of(address: int | None) -> tuple[str, int]:
    """The file that holds what is loaded at an address, and where the file begins; nothing for other addresses."""
    found = (ctypes.c_void_p * 4)()  # a ``Dl_info``: the file, where it begins, and the symbol and its address
    if not address or not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        return "", 0
    return os.path.realpath((ctypes.c_char_p(found[0]).value or b"").decode()), found[1] or 0


def content_of(address: int) -> str | None:
    """Identifies a function by the content of its shared library and its place there, the same in every process.

    None if it lies in no file: a compiler has made it in the memory of this process. Ask soon after the library is
    loaded: a file that is built again is another one, while this process keeps the old code.
    """
    file, base = file_of(address)
    digest = _digest(file, base)
    return digest and f"{digest}+{address - base}"


@functools.cache
def _digest(file: str, base: int) -> str | None:
    """The content of a file when it was first asked for; None without one. ``base`` is where it is loaded."""
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None
