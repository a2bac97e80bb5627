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
from bridge.ffi.native.addresses import EMPTY, MASK, SLOT_WORDS, SLOTS, c_string
from bridge.ffi.native.words import call, call2, context_word, load, load_int32, stack_words, store, store_int32

HANDLER = types.int64(types.int64)
"""Type of a handler: takes the address of a frame, returns the address of an ``XLA_FFI_Error`` or 0."""

native = numba.njit(error_model="numpy", forceinline=True)
"""Compiles code that works on words. It raises nothing. It is always inlined: LLVM does not inline Numba's functions
by itself, because they are weak symbols."""


@native
def create_error(frame, code, message):
    """A new ``XLA_FFI_Error`` from the C string at ``message``, which XLA copies."""
    args = stack_words(8)
    store(args, ERROR.SIZE, ERROR.BYTES)
    store(args, ERROR.EXTENSION, 0)
    store(args, ERROR.MESSAGE, message)
    store(args, ERROR.CODE, code)
    return call(load(load(frame, FRAME.API), API.ERROR_CREATE), args)


@numba.njit(inline="never")
def lookup(table, key):
    """The value of ``key`` in the :class:`~bridge.ffi.native.addresses.NativeTable` at the address ``table``, or 0."""
    block = load(table, 0)
    mask = load(block, MASK)
    slot = key & mask
    while True:
        at = SLOTS + SLOT_WORDS * slot
        found = load(block, at)
        if found == key:
            return load(block, at + 1)
        if found == EMPTY:
            return 0
        slot = (slot + 1) & mask


TABLE, RESOLVER, TRAITS, TOO_OLD, UNRESOLVED, FOR_EXECUTE = range(6)


def context_words(table: int, resolver: int, traits: int, for_execute: int) -> ctypes.Array[ctypes.c_int64]:
    """The context of a handler, which lives as long as the handler.

    Args:
        table: Address of the :class:`~bridge.ffi.native.addresses.NativeTable` that maps keys to plans.
        resolver: Address of a :data:`bridge.ffi.target.RESOLVER`. It is called if the key is not in the table, with the
            addresses of the frame and of two zero words. It writes the address of a plan to the first word, or of an
            error to the second.
        traits: Bits of ``XLA_FFI_Handler_Traits``.
        for_execute: What ``execute`` reads as ``context_word(FOR_EXECUTE)``, such as the address of words.
    """
    too_old = c_string(f"the call frame is smaller than in XLA FFI {VERSION.MAJOR}.{VERSION.MINOR}")
    unresolved = c_string("the kernel of this call could not be resolved")
    return (ctypes.c_int64 * 6)(table, resolver, traits, too_old, unresolved, for_execute)


def compile_target(execute: Callable[..., Any]) -> Any:
    """Compiles a handler to a Numba ``CFunc``. It runs with the context of :func:`context_words`.

    Args:
        execute: Native ``(frame, plan) -> error``.
    """

    @numba.cfunc(HANDLER, error_model="numpy", forceinline=True)
    def target(frame):
        if load(frame, FRAME.SIZE) < FRAME.LEAST_SIZE:
            return create_error(frame, np.int64(ERROR.INTERNAL), context_word(TOO_OLD))

        extension = load(frame, FRAME.EXTENSION)
        if extension != 0 and load_int32(extension, EXTENSION.TYPE_BYTE) == EXTENSION.METADATA_TYPE:
            metadata = load(extension, EXTENSION.METADATA)
            store_int32(metadata, METADATA.MAJOR_BYTE, VERSION.MAJOR)
            store_int32(metadata, METADATA.MINOR_BYTE, VERSION.MINOR)
            store_int32(metadata, METADATA.TRAITS_BYTE, context_word(TRAITS))
            return 0
        if load_int32(frame, FRAME.STAGE_BYTE) != FRAME.EXECUTE:
            return 0

        # The key is the scalar among the attributes; the others describe the kernel to the resolver.
        key = np.int64(0)
        for index in range(load(frame, FRAME.ATTR_COUNT)):
            if load_int32(load(frame, FRAME.ATTR_TYPES), 4 * index) == ATTRIBUTE.SCALAR_TYPE:
                key = load(load(load(load(frame, FRAME.ATTRS), index), ATTRIBUTE.SCALAR_VALUE), 0)
        plan = lookup(context_word(TABLE), key)
        if plan == 0:
            answer = stack_words(2)
            store(answer, 0, 0)
            store(answer, 1, 0)
            call2(context_word(RESOLVER), frame, answer)
            plan, error = load(answer, 0), load(answer, 1)
            if error != 0:
                return error
            if plan == 0:
                return create_error(frame, np.int64(ERROR.INTERNAL), context_word(UNRESOLVED))
        return execute(frame, plan)

    return target
