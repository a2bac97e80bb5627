"""Fills the outputs of a call with a pattern before the kernel runs, to find the elements that it does not write."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from bridge.ffi.native.abi import ARRAY, BUFFER, FRAME
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.call_frame import NAME, array_attribute, stream_and_device
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import call, call4, fill_bytes, load, stack_words
from bridge.ffi.plans.device import driver_error
from bridge.ffi.primitive import element_bits

PATTERNS = (0xFF, 0x5A)
"""The byte that fills the outputs in the first run, and in the second. The first makes NaN (or -1), the second a large
ordinary number. An element that holds the pattern of each run after that run was not written: a kernel writes the same
value in both runs."""

BOOL_PATTERNS = (0, 1)
"""The same for booleans, which are true for every byte other than 0."""

PACKED_PATTERNS = (0xFF, 0x55)
"""The same for elements of 2 or 4 bits: all elements of a byte are equal."""

_BYTES, _PATTERN, _FILL_WORDS = 0, 1, 2


def pattern(dtype: Any, run: int) -> int:
    """The byte that an output of this dtype is filled with in run 0 or 1."""
    if np.dtype(dtype) == np.bool_:
        return BOOL_PATTERNS[run]
    return (PATTERNS if element_bits(dtype) >= 8 else PACKED_PATTERNS)[run]


def filled(dtype: Any, run: int) -> Any:
    """The element, an integer or boolean, of an array that is filled with the pattern of run 0 or 1."""
    byte, bits = pattern(dtype, run), element_bits(dtype)
    unsigned = int.from_bytes([byte] * -(-bits // 8), "little") & ((1 << bits) - 1)
    return np.array(unsigned).astype(dtype)[()]


def fills(outputs: Sequence[Any], aliased: Collection[int], run: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The attribute that :func:`fill_before` reads: for each output, how many bytes to fill, and with which byte.

    Args:
        outputs: Shape and dtype of each output, with batch dimensions.
        aliased: Indices of the outputs that are not filled, because they hold an input.
        run: 0 or 1.
    """
    words = []
    for index, output in enumerate(outputs):
        size = 0 if index in aliased else -(-math.prod(output.shape) * element_bits(output.dtype) // 8)
        words += [size, pattern(output.dtype, run)]
    return np.array(words, np.int64)


def fill_before(execute: Any, fill: Any, wait: Any, on_stream: bool) -> Any:
    """Native ``(frame, plan) -> error`` that fills the outputs as the attribute of the call says, then executes.

    Args:
        execute: Native ``(frame, plan) -> error``.
        fill: Native ``(frame, address, byte, size, stream) -> error``.
        wait: Native ``(frame, stream, name) -> error`` that waits for the kernel; without a name, for earlier work.
        on_stream: Ask XLA for the stream; if not, it is 0.
    """

    @native
    def run(frame, plan):
        words = load(array_attribute(frame), ARRAY.DATA)
        where = stack_words(2)
        error = stream_and_device(frame, where, on_stream)
        if error != 0:
            return error
        stream = load(where, 0)
        for index in range(load(frame, FRAME.RET_COUNT)):
            size = load(words, _FILL_WORDS * index + _BYTES)
            if size != 0:
                byte = load(words, _FILL_WORDS * index + _PATTERN)
                address = load(load(load(frame, FRAME.RETS), index), BUFFER.DATA)
                error = fill(frame, address, byte, size, stream)
                if error != 0:
                    return error
        error = wait(frame, stream, 0)  # or the kernel would get the blame for a fault of what ran earlier
        if error == 0:
            error = execute(frame, plan)
        return error if error != 0 else wait(frame, stream, load(plan, NAME))

    return run


def fill_host(execute: Callable[..., Any]) -> Any:
    """Native ``(frame, plan) -> error`` that fills the outputs in host memory, then executes."""

    @native
    def fill(frame, address, byte, size, stream):
        fill_bytes(address, byte, size)
        return 0

    return fill_before(execute, fill, native(lambda frame, stream, name: 0), on_stream=False)


def stream_wait(synchronize: int, describe: int) -> Any:
    """Native ``wait`` for a CUDA stream.

    Args:
        synchronize: Address of ``cuStreamSynchronize``, or of a function like it.
        describe: Address of a :data:`bridge.ffi.plans.device.DESCRIBE` about a kernel that failed as it ran.
    """
    synchronize_address, describe_address = np.int64(synchronize), np.int64(describe)
    earlier = np.int64(c_string("the work before the kernel"))

    @native
    def wait(frame, stream, name):
        status = call(synchronize_address, stream) & 0xFFFFFFFF  # its result has 32 bits
        return driver_error(frame, status, describe_address, name if name != 0 else earlier) if status != 0 else 0

    return wait


def stream_fill(memset: int, describe: int) -> Any:
    """Native ``fill`` on a CUDA stream.

    Args:
        memset: Address of ``cuMemsetD8Async``, or of a function like it.
        describe: Address of a :data:`bridge.ffi.plans.device.DESCRIBE`.
    """
    memset_address, describe_address = np.int64(memset), np.int64(describe)
    name = np.int64(c_string("the fill of an output"))

    @native
    def fill(frame, address, byte, size, stream):
        status = call4(memset_address, address, byte, size, stream) & 0xFFFFFFFF  # its result has 32 bits
        if status != 0:
            return driver_error(frame, status, describe_address, name)
        return 0

    return fill
