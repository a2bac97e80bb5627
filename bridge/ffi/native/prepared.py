"""Makes native functions of the bridge ready to be called: compiles them, or finds their object code on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.ffi.native.object_code import LoadedObject, emit_object
from bridge.ffi.native.object_files import read_object, write_object


def prepared(compile_now: Callable[[], Any], name: str | None = None) -> LoadedObject:
    """A native function in memory.

    Args:
        compile_now: Compiles the function to a Numba ``CFunc`` that holds no address. What it compiles is written in
            its own file and in :mod:`bridge.ffi`.
        name: Names the object code on disk. None to keep none: the code refers to addresses of this process.
    """
    if name is None:
        return LoadedObject(emit_object(compile_now())[0])
    source = compile_now.__code__.co_filename
    code = read_object(name, source)
    if code is None:
        code, outside = emit_object(compile_now())
        if not outside:
            write_object(name, source, code)
    return LoadedObject(code)
