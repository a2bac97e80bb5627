"""Reads a call frame in native code: its buffers and their batch elements, its attributes, its stream and device.

XLA calls the native handler of a target with a call frame. The handler answers the metadata handshake, reads the key of
the call from the frame's attributes, finds the *plan* of that key and executes it. A plan is a block of words that
describes the kernel to run. The module that executes a plan defines its layout, such as :mod:`bridge.ffi.plans.host`.
The handler does not take the GIL.

A plan begins with the words of :meth:`bridge.ffi.native.addresses.Arrays.header`, which say what buffers it takes.

A buffer has batch dimensions and then the dimensions of its array. All buffers of a call have the same number of batch
dimensions. In outputs each of them has the extent of the batch. In inputs it may also be 1: every element of the batch
then uses the same array. So native code runs ``vmap``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from bridge.ffi.native.abi import (
    API,
    ATTRIBUTE,
    BUFFER,
    ERROR,
    EXTENSION,
    FRAME,
    METADATA,
    ORDINAL,
    STREAM,
    VERSION,
    WORD_BYTES,
)
from bridge.ffi.native.addresses import MAX_BUFFERS, c_string
from bridge.ffi.native.words import (
    call,
    call2,
    context_word,
    create_error,
    load,
    load_int32,
    lookup,
    native,
    stack_words,
    store,
    store_int32,
)

STREAM_WORD, DEVICE_WORD = MAX_BUFFERS, MAX_BUFFERS + 1
"""Words after the addresses of the data that hold XLA's CUDA stream and the ordinal of the device, the current one."""

DATA_WORDS = MAX_BUFFERS + 2

HEADER_WORDS = 5
_INPUTS, _OUTPUTS, _SIZES, _MISCOUNTED, NAME = range(HEADER_WORDS)
_RANK, _ITEM_BYTES, _SIZE_WORDS = 0, 1, 2


def for_each_element(run: Any, on_stream: bool) -> Any:
    """Native ``(frame, plan) -> error`` that runs a kernel once for each element of a batch.

    Args:
        run: Native ``(frame, plan, buffers, data, batch_rank) -> error``. ``buffers`` points to the addresses of the
            buffers (inputs, then outputs), ``data`` to the addresses of their data for this element of the batch.
        on_stream: Ask XLA for stream and device; if not, both are 0: XLA has no streams on the CPU.
    """

    @native
    def execute(frame, plan):
        buffers, data = stack_words(MAX_BUFFERS), stack_words(DATA_WORDS)
        error = collect_buffers(frame, plan, buffers)
        if error != 0:
            return error
        error = stream_and_device(frame, data + WORD_BYTES * STREAM_WORD, on_stream)
        if error != 0:
            return error
        rank = batch_rank_of(plan, buffers)
        return run_elements(run, frame, plan, buffers, data, rank, 0, batch_elements(plan, buffers, rank))

    return execute


@native
def run_elements(run, frame, plan, buffers, data, batch_rank, first, last):
    """Runs the elements of a batch from ``first`` to ``last``, which is not included. Returns the first error, or 0."""
    for element in range(first, last):
        for index in range(buffer_count(plan)):
            store(data, index, element_address(plan, buffers, index, batch_rank, element))
        error = run(frame, plan, buffers, data, batch_rank)
        if error != 0:
            return error
    return 0


@native
def buffer_count(plan):
    """Number of the inputs and outputs of a plan."""
    return load(plan, _INPUTS) + load(plan, _OUTPUTS)


@native
def collect_buffers(frame, plan, buffers):
    """Writes the addresses of the buffers, inputs then outputs. Returns 0, or an error if the plan has others."""
    inputs, outputs = load(plan, _INPUTS), load(plan, _OUTPUTS)
    if load(frame, FRAME.ARG_COUNT) != inputs or load(frame, FRAME.RET_COUNT) != outputs:
        return create_error(frame, np.int64(ERROR.INVALID_ARGUMENT), load(plan, _MISCOUNTED))
    for index in range(inputs):
        store(buffers, index, load(load(frame, FRAME.ARGS), index))
    for index in range(outputs):
        store(buffers, inputs + index, load(load(frame, FRAME.RETS), index))
    return 0


@native
def batch_rank_of(plan, buffers):
    """Number of batch dimensions of the buffers of a call."""
    last = buffer_count(plan) - 1
    return load(load(buffers, last), BUFFER.RANK) - load(load(plan, _SIZES), _SIZE_WORDS * last + _RANK)


@native
def batch_elements(plan, buffers, batch_rank):
    """Number of elements in the batch; 1 without a batch."""
    output = load(buffers, buffer_count(plan) - 1)
    elements = 1
    for axis in range(batch_rank):
        elements *= load(load(output, BUFFER.DIMS), axis)
    return elements


@native
def element_address(plan, buffers, index, batch_rank, element):
    """Address of the data of buffer ``index`` for one element of the batch."""
    buffer = load(buffers, index)
    address = load(buffer, BUFFER.DATA)
    if batch_rank != 0:
        size = load(plan, _SIZES) + 8 * _SIZE_WORDS * index
        dims, extents = load(buffer, BUFFER.DIMS), load(load(buffers, buffer_count(plan) - 1), BUFFER.DIMS)
        stride = load(size, _ITEM_BYTES)
        for axis in range(batch_rank, batch_rank + load(size, _RANK)):
            stride *= load(dims, axis)
        for axis in range(batch_rank - 1, -1, -1):
            extent = load(extents, axis)
            if load(dims, axis) != 1:
                address += (element % extent) * stride
                stride *= extent
            element //= extent
    return address


@native
def array_attribute(frame):
    """Address of the array attribute of a call, or 0. A call has at most one."""
    for index in range(load(frame, FRAME.ATTR_COUNT)):
        if load_int32(load(frame, FRAME.ATTR_TYPES), 4 * index) == ATTRIBUTE.ARRAY_TYPE:
            return load(load(frame, FRAME.ATTRS), index)
    return 0


@native
def stream_and_device(frame, answer, on_stream):
    """Writes XLA's CUDA stream and device ordinal to two words. Returns 0 or the address of an error.

    Without ``on_stream`` both are 0: XLA has no streams on the CPU, where tests run this.
    """
    store(answer, 0, 0)
    store(answer, 1, 0)
    if not on_stream:
        return 0
    args = stack_words(8)
    store(args, STREAM.SIZE, STREAM.BYTES)
    store(args, STREAM.EXTENSION, 0)
    store(args, STREAM.CONTEXT, load(frame, FRAME.CONTEXT))
    error = call(load(load(frame, FRAME.API), API.STREAM_GET), args)
    if error != 0:
        return error
    store(answer, 0, load(args, STREAM.STREAM))
    store(args, ORDINAL.SIZE, ORDINAL.BYTES)
    store(args, ORDINAL.EXTENSION, 0)
    store(args, ORDINAL.CONTEXT, load(frame, FRAME.CONTEXT))
    error = call(load(load(frame, FRAME.API), API.DEVICE_ORDINAL_GET), args)
    if error != 0:
        return error
    store(answer, 1, load_int32(args, ORDINAL.ORDINAL_BYTE))
    return 0


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

    @numba.cfunc(types.int64(types.int64), error_model="numpy", forceinline=True)
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
