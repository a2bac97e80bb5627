"""Compiles the native FFI handler of a target: machine code that XLA calls with a call frame.

The handler answers the metadata handshake, reads the key of the call from the frame's attributes, finds the *plan* of
that key and executes it. A plan is a block of words that describes the kernel to run. The module that executes a plan
defines its layout, such as :mod:`bridge.ffi.plans.host`. The handler does not take the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from bridge.ffi.native.abi import API, ATTRIBUTE, ERROR, EXTENSION, FRAME, METADATA, VERSION
from bridge.ffi.native.table import lookup
from bridge.ffi.native.words import call, call2, load, load_int32, stack_words, store, store_int32

HANDLER = types.int64(types.int64)
"""Type of a handler: takes the address of a frame, returns the address of an ``XLA_FFI_Error`` or 0."""

RESOLVER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""Type of the C function that a target asks about an unknown key, see :func:`compile_target`."""

native = numba.njit(error_model="numpy", forceinline=True)
"""Compiles code that works on words. It raises nothing. It is always inlined: LLVM does not inline Numba's functions
by itself, because they are weak symbols."""

_texts: dict[str, ctypes.Array[ctypes.c_char]] = {}


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    return ctypes.addressof(_texts.setdefault(text, ctypes.create_string_buffer(text.encode())))


def c_function(function: Any) -> int:
    """Address of a C function that ctypes has found or made. If ctypes has made it, the caller must keep it alive."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


@native
def create_error(frame, code, message):
    """A new ``XLA_FFI_Error`` from the C string at ``message``, which XLA copies."""
    args = stack_words(8)
    store(args, ERROR.SIZE, ERROR.BYTES)
    store(args, ERROR.EXTENSION, 0)
    store(args, ERROR.MESSAGE, message)
    store(args, ERROR.CODE, code)
    return call(load(load(frame, FRAME.API), API.ERROR_CREATE), args)


def compile_target(table: int, resolver: int, traits: int, execute: Callable[..., Any]) -> Any:
    """Compiles a handler.

    Args:
        table: Address of the :class:`~bridge.ffi.native.table.NativeTable` that maps keys to plans.
        resolver: Address of a :data:`RESOLVER`. It is called if the key is not in the table, with the addresses of the
            frame and of two zero words. It writes the address of a plan to the first word, or of an error to the
            second.
        traits: Bits of ``XLA_FFI_Handler_Traits``.
        execute: Native ``(frame, plan) -> error``.

    Returns:
        A Numba ``CFunc``, which the caller must keep alive.
    """
    # Typed numbers: Numba would compile a callee anew for each literal.
    entries, trait_bits = np.int64(table), np.int64(traits)
    too_old = np.int64(c_string(f"the call frame is smaller than that of XLA FFI {VERSION.MAJOR}.{VERSION.MINOR}"))
    unresolved = np.int64(c_string("the kernel of this call could not be resolved"))

    @numba.cfunc(HANDLER, error_model="numpy", forceinline=True)
    def target(frame):
        if load(frame, FRAME.SIZE) < FRAME.LEAST_SIZE:
            return create_error(frame, np.int64(ERROR.INTERNAL), too_old)

        extension = load(frame, FRAME.EXTENSION)
        if extension != 0 and load_int32(extension, EXTENSION.TYPE_BYTE) == EXTENSION.METADATA_TYPE:
            metadata = load(extension, EXTENSION.METADATA)
            store_int32(metadata, METADATA.MAJOR_BYTE, VERSION.MAJOR)
            store_int32(metadata, METADATA.MINOR_BYTE, VERSION.MINOR)
            store_int32(metadata, METADATA.TRAITS_BYTE, trait_bits)
            return 0
        if load_int32(frame, FRAME.STAGE_BYTE) != FRAME.EXECUTE:
            return 0

        # The key is the scalar among the attributes; the others describe the kernel to the resolver.
        key = np.int64(0)
        for index in range(load(frame, FRAME.ATTR_COUNT)):
            if load_int32(load(frame, FRAME.ATTR_TYPES), 4 * index) == ATTRIBUTE.SCALAR_TYPE:
                key = load(load(load(load(frame, FRAME.ATTRS), index), ATTRIBUTE.SCALAR_VALUE), 0)
        plan = lookup(entries, key)
        if plan == 0:
            answer = stack_words(2)
            store(answer, 0, 0)
            store(answer, 1, 0)
            call2(resolver, frame, answer)
            plan, error = load(answer, 0), load(answer, 1)
            if error != 0:
                return error
            if plan == 0:
                return create_error(frame, np.int64(ERROR.INTERNAL), unresolved)
        return execute(frame, plan)

    return target
