"""Reads the buffers, attributes, stream and device of a call frame in native code."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.errors import SignatureError
from bridge.ffi.native.abi import API, ARRAY, ATTRIBUTE, FRAME, ORDINAL, STREAM
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import call, load, load_int32, stack_words, store

MAX_BUFFERS = 256
"""The largest number of arrays of a call, inputs and outputs together."""


def check_count(name: str, count: int) -> None:
    """Raises SignatureError if a call has more arrays than native code can hold."""
    if count > MAX_BUFFERS:
        raise SignatureError(f"{name} has {count} arrays, expected at most {MAX_BUFFERS}. Stack some of them into one.")


def miscounted(name: str, inputs: Sequence[object], outputs: Sequence[object]) -> int:
    """Address of the error message for a frame whose numbers of buffers are wrong.

    Raises:
        SignatureError: There are more buffers than native code can hold.
    """
    check_count(name, len(inputs) + len(outputs))
    return c_string(f"{name} was called with other buffers than its {len(inputs)} inputs and {len(outputs)} outputs")


@native
def collect_buffers(frame, inputs, outputs, buffers):
    """Writes the addresses of the buffers, inputs then outputs. Returns False if the frame has more or fewer."""
    if load(frame, FRAME.ARG_COUNT) != inputs or load(frame, FRAME.RET_COUNT) != outputs:
        return False
    for index in range(inputs):
        store(buffers, index, load(load(frame, FRAME.ARGS), index))
    for index in range(outputs):
        store(buffers, inputs + index, load(load(frame, FRAME.RETS), index))
    return True


@native
def array_attribute(frame, dtype):
    """Address of the array attribute with elements of this type, or 0. A call has at most one of each type."""
    for index in range(load(frame, FRAME.ATTR_COUNT)):
        if load_int32(load(frame, FRAME.ATTR_TYPES), 4 * index) == ATTRIBUTE.ARRAY_TYPE:
            array = load(load(frame, FRAME.ATTRS), index)
            if load_int32(array, ARRAY.DTYPE_BYTE) == dtype:
                return array
    return 0


@native
def stream_and_device(frame, answer):
    """Writes XLA's CUDA stream and device ordinal to two words. Returns 0 or the address of an error."""
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
