"""Takes the C functions that users pass: finds their address, and the types that they declare."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core.ccallback import CFunc

from bridge.errors import KernelTypeError, SignatureError

_CALLS_PYTHON = 4
"""The flag of ctypes for functions of Python's C API, which need the GIL."""

_POINTERS = (ctypes.c_void_p, ctypes.c_char_p, ctypes._Pointer)


@dataclass(frozen=True)
class CFunction:
    """A C function.

    Attributes:
        address: Where it is loaded.
        name: Its name; None if only its address is known.
        argtypes: The ctypes types of its parameters; None if they are not stated.
        status: The type of the status that it returns; None if it returns none.
        alive: What the user passed, which keeps the function loaded.
    """

    address: int
    name: str | None
    argtypes: tuple[Any, ...] | None
    status: np.dtype[Any] | None
    alive: Any = field(repr=False, compare=False)


def c_function(given: Any, argtypes: Sequence[Any] | None, status: bool) -> CFunction:
    """A C function that a user passes in one of the forms of :func:`bridge.native_kernel`.

    Raises:
        KernelTypeError: It is none of these, or a function of Python's C API.
        SignatureError: ``argtypes`` holds no types, or the function does not return what it should.
    """
    function = given.ctypes if isinstance(given, CFunc) else given
    address, name = _address(function), getattr(given, "__name__", None)
    stated, result = getattr(function, "argtypes", None), np.dtype(np.int32)
    if stated is not None and (function.restype is not None or status):
        result = dtype_of(function.restype) or np.dtype(object)
        if result.kind not in "iu":
            returns = getattr(function.restype, "__name__", "nothing")
            raise SignatureError(
                f"{name or 'the C function'} returns {returns}, expected "
                f"{'an integer, its status' if status else 'nothing, or an integer'}. Set restype to what it returns "
                "(None for nothing); results are written to outputs."
            )
    try:
        types = stated if argtypes is None else argtypes
        types = None if types is None else tuple(types)
        if types is not None and not all(isinstance(each, type) for each in types):
            raise TypeError
    except TypeError:
        raise SignatureError(
            f"{name or 'the C function'}: argtypes is {argtypes!r}, expected a sequence of ctypes types, as "
            "(ctypes.c_void_p, ctypes.c_int64)."
        ) from None
    return CFunction(address, name, types, result if status else None, given)


def _address(function: Any) -> int:
    kind = type(function)
    if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        if function._flags_ & _CALLS_PYTHON:
            raise KernelTypeError(
                f"native_kernel got {function!r}, a function of Python's C API, expected one that runs without the "
                "GIL. Load its library with ctypes.CDLL."
            )
        address = ctypes.cast(function, ctypes.c_void_p).value
    elif kind.__name__ == "PyCapsule":
        address = _in_capsule(function)
    elif kind.__module__ == "_cffi_backend":
        address = int(sys.modules["_cffi_backend"].FFI().cast("intptr_t", function))
    elif isinstance(function, int | np.integer) and not isinstance(function, bool):
        address = int(function)
    else:
        raise KernelTypeError(
            f"native_kernel got {function!r} of type {kind.__name__}, expected a C function: of ctypes, of cffi, "
            "numba.cfunc, a PyCapsule of one, or its address. Load it, as ctypes.CDLL(path).name."
        )
    if not address or address < 0:
        raise KernelTypeError(f"native_kernel got {function!r}, which is no address of a function. Load it first.")
    return address


def _in_capsule(capsule: Any) -> int | None:
    python = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    return pointer(capsule, name(capsule))  # type: ignore[no-any-return]


def is_pointer(ctype: Any) -> bool:
    """Whether a ctypes type is a pointer."""
    return isinstance(ctype, type) and issubclass(ctype, _POINTERS)


def dtype_of(ctype: Any) -> np.dtype[Any] | None:
    """The dtype of a ctypes number, or of what a pointer points to; None for a pointer to anything."""
    if is_pointer(ctype):
        ctype = getattr(ctype, "_dtype_", None) if issubclass(ctype, ctypes.c_void_p) else ctype._type_
    if ctype is None:
        return None
    try:
        return np.dtype("S1" if ctype == "z" else ctype)  # c_char_p has the type "z"
    except TypeError:
        return np.dtype(object)
