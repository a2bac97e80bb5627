"""Native FFI handlers: machine code that XLA calls with a call frame, compiled from Python by Numba.

There are two layers. A *target* is what XLA knows by name: it answers the metadata handshake, reads the key of the call
from the frame's attributes and passes the frame to the *entry* of that key. An entry belongs to one compiled kernel: it
runs it for each element of the batch. Both take the address of a frame and return 0 or the address of an
``XLA_FFI_Error``. Neither takes the GIL, except to report an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from bridge.ffi.abi import API, ATTRIBUTE, BUFFER, ERROR, EXTENSION, FRAME, METADATA, VERSION
from bridge.ffi.memory import call, call2, load, load_int32, stack_words, store, store_int32
from bridge.ffi.table import lookup

HANDLER = types.int64(types.int64)
"""Type of targets and entries."""

RESOLVER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""Type of the C function that a target asks about an unknown key, see :func:`compile_target`."""

# Word-level code divides by extents that are not 0, and raises nothing.
_native = numba.njit(error_model="numpy")

_texts: dict[str, ctypes.Array[ctypes.c_char]] = {}


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    return ctypes.addressof(_texts.setdefault(text, ctypes.create_string_buffer(text.encode())))


@_native
def create_error(frame, code, message):
    """A new ``XLA_FFI_Error`` from the C string at ``message``, which XLA copies."""
    args = stack_words(8)
    store(args, ERROR.SIZE, ERROR.BYTES)
    store(args, ERROR.EXTENSION, 0)
    store(args, ERROR.MESSAGE, message)
    store(args, ERROR.CODE, code)
    return call(load(load(frame, FRAME.API), API.ERROR_CREATE), args)


@_native
def _is_metadata_request(frame):
    extension = load(frame, FRAME.EXTENSION)
    return extension != 0 and load_int32(extension, EXTENSION.TYPE_BYTE) == EXTENSION.METADATA_TYPE


@_native
def _answer_metadata_request(frame, traits):
    metadata = load(load(frame, FRAME.EXTENSION), EXTENSION.METADATA)
    store_int32(metadata, METADATA.MAJOR_BYTE, VERSION.MAJOR)
    store_int32(metadata, METADATA.MINOR_BYTE, VERSION.MINOR)
    store_int32(metadata, METADATA.TRAITS_BYTE, traits)


@_native
def _key(frame):
    """The scalar among the call's attributes; the others describe the kernel to :data:`RESOLVER`."""
    kinds, attributes = load(frame, FRAME.ATTR_TYPES), load(frame, FRAME.ATTRS)
    for index in range(load(frame, FRAME.ATTR_COUNT)):
        if load_int32(kinds, 4 * index) == ATTRIBUTE.SCALAR_TYPE:
            return load(load(load(attributes, index), ATTRIBUTE.SCALAR_VALUE), 0)
    return 0


def compile_target(table: int, resolver: int, traits: int) -> Any:
    """Compiles a target.

    Args:
        table: Address of the :class:`~bridge.ffi.table.NativeTable` that maps keys to entries.
        resolver: Address of a :data:`RESOLVER`. It is called with the address of the frame and of two zeroed words when
            the key is not in the table, and writes the address of an entry to the first or of an error to the second.
        traits: Bits of ``XLA_FFI_Handler_Traits``.

    Returns:
        A Numba ``CFunc``; its ``address`` is what XLA registers. It must be kept alive by the caller.
    """
    too_old = c_string(f"the call frame is smaller than that of XLA FFI {VERSION.MAJOR}.{VERSION.MINOR}")
    unresolved = c_string("the kernel of this call could not be resolved")

    @numba.cfunc(HANDLER, error_model="numpy")
    def target(frame):
        if load(frame, FRAME.SIZE) < FRAME.LEAST_SIZE:
            return create_error(frame, ERROR.INTERNAL, too_old)
        if _is_metadata_request(frame):
            _answer_metadata_request(frame, traits)
            return 0
        if load_int32(frame, FRAME.STAGE_BYTE) != FRAME.EXECUTE:
            return 0
        entry = lookup(table, _key(frame))
        if entry == 0:
            answer = stack_words(2)
            store(answer, 0, 0)
            store(answer, 1, 0)
            call2(resolver, frame, answer)
            entry, error = load(answer, 0), load(answer, 1)
            if error != 0:
                return error
            if entry == 0:
                return create_error(frame, ERROR.INTERNAL, unresolved)
        return call(entry, frame)

    return target


@_native
def _batch_element(buffer, core_rank, item_bytes, last_output, batch_rank, element):
    """Address of one batch element of a buffer whose leading ``batch_rank`` dimensions are 1 or the batch's extent."""
    dims = load(buffer, BUFFER.DIMS)
    stride = item_bytes
    for axis in range(batch_rank, batch_rank + core_rank):
        stride *= load(dims, axis)
    extents = load(last_output, BUFFER.DIMS)
    offset = 0
    for axis in range(batch_rank - 1, -1, -1):
        position = element % load(extents, axis)
        element //= load(extents, axis)
        if load(dims, axis) != 1:
            offset += position * stride
            stride *= load(dims, axis)
    return load(buffer, BUFFER.DATA) + offset


def compile_entry(
    invoke: Callable[..., Any],
    inputs: tuple[tuple[int, int], ...],
    outputs: tuple[tuple[int, int], ...],
    mutex: tuple[int, int, int] | None = None,
) -> Any:
    """Compiles the entry of one kernel: the loop over the batch around ``invoke``.

    A buffer has the dimensions of its array, preceded by the same number of batch dimensions in all buffers; each of
    these is either the extent of the batch (always, in outputs) or 1 (not batched there).

    Args:
        invoke: Native ``(frame, buffers, data, batch_rank) -> error``: runs the kernel once. ``buffers`` is the address
            of the buffer addresses (inputs, then outputs) and ``data`` of the addresses of this element's data.
        inputs: Rank (without batch) and item size in bytes of each input.
        outputs: The same of each output; at least one.
        mutex: Addresses of an acquire function, a release function and the mutex that both take, held during the call.

    Returns:
        A Numba ``CFunc`` that must be kept alive by the caller.
    """
    input_count, output_count = len(inputs), len(outputs)
    count = input_count + output_count
    ranks = tuple(rank for rank, _ in inputs + outputs)
    item_bytes = tuple(size for _, size in inputs + outputs)
    miscounted = c_string(f"expected {input_count} input and {output_count} output buffers")

    @_native
    def run(frame):
        if load(frame, FRAME.ARG_COUNT) != input_count or load(frame, FRAME.RET_COUNT) != output_count:
            return create_error(frame, ERROR.INVALID_ARGUMENT, miscounted)
        buffers, data = stack_words(count), stack_words(count)
        for index in range(input_count):
            store(buffers, index, load(load(frame, FRAME.ARGS), index))
        for index in range(output_count):
            store(buffers, input_count + index, load(load(frame, FRAME.RETS), index))
        last_output = load(buffers, count - 1)
        batch_rank = load(last_output, BUFFER.RANK) - ranks[count - 1]
        if batch_rank == 0:
            for index in range(count):
                store(data, index, load(load(buffers, index), BUFFER.DATA))
            return invoke(frame, buffers, data, 0)
        elements = 1
        for axis in range(batch_rank):
            elements *= load(load(last_output, BUFFER.DIMS), axis)
        for element in range(elements):
            for index in range(count):
                buffer = load(buffers, index)
                address = _batch_element(
                    buffer, ranks[index], item_bytes[index], last_output, batch_rank, element
                )
                store(data, index, address)
            error = invoke(frame, buffers, data, batch_rank)
            if error != 0:
                return error
        return 0

    if mutex is None:

        @numba.cfunc(HANDLER, error_model="numpy")
        def entry(frame):
            return run(frame)

    else:
        acquire, release, lock = mutex

        @numba.cfunc(HANDLER, error_model="numpy")
        def entry(frame):
            call2(acquire, lock, 1)
            error = run(frame)
            call(release, lock)
            return error

    return entry
