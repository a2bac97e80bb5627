"""Outputs that are filled with a pattern before a kernel runs: what still holds it afterwards was not written."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from bridge.ffi.cuda import driver
from bridge.ffi.native.abi import ARRAY, BUFFER, ERROR, FRAME
from bridge.ffi.native.frame import array_attribute, stream_and_device
from bridge.ffi.native.handler import c_function, c_string, create_error, native
from bridge.ffi.native.memory import call2, call3, call4, load, stack_words, store
from bridge.ffi.target import Target

PATTERNS = (0xFF, 0x5A)
"""The bytes of the first and of the second run: NaN (or -1), and a large ordinary number. An element that holds the one
after the one run and the other after the other was not written; a value that a kernel wrote is the same in both."""

BOOL_PATTERNS = (0, 1)
"""The same for booleans, of which every other byte is true."""

_BYTES, _PATTERN, _FILL_WORDS = 0, 1, 2


def pattern(dtype: Any, run: int) -> int:
    """The byte that an output of this dtype is filled with in run 0 or 1."""
    return (BOOL_PATTERNS if np.dtype(dtype) == np.bool_ else PATTERNS)[run]


def fills(outputs: Sequence[Any], aliased: Collection[int], run: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The attribute of a call of a :func:`poisoning` target: for each output, bytes to fill and the byte.

    Args:
        outputs: Shape and dtype of each output, with batch dimensions.
        aliased: Indices of the outputs that are not filled, because they hold an input.
        run: 0 or 1.
    """
    words = []
    for index, output in enumerate(outputs):
        size = 0 if index in aliased else math.prod(output.shape) * np.dtype(output.dtype).itemsize
        words += [size, pattern(output.dtype, run)]
    return np.array(words, np.int64)


@functools.cache
def poisoning(target: Target) -> Target:
    """The target that runs the entries of another one after it has filled their outputs."""
    make_fill = _host_fill if target.platform == "cpu" else _device_fill
    return target.variant("_poisoned", lambda execute: fill_before(execute, make_fill(), target.platform == "cuda"))


def fill_before(execute: Callable[..., Any], fill: Callable[..., Any], on_stream: bool) -> Any:
    """Native ``(frame, plan) -> error`` that fills the outputs of a frame as its array attribute says, then executes.

    Args:
        execute: Native ``(frame, plan) -> error``.
        fill: Native ``(frame, address, byte, size, stream) -> error``.
        on_stream: Ask XLA for the stream; if not, it is 0.
    """

    @native
    def run(frame, plan):
        words = load(array_attribute(frame, ARRAY.INT64), ARRAY.DATA)
        where = stack_words(2)
        store(where, 0, 0)
        if on_stream:
            error = stream_and_device(frame, where)
            if error != 0:
                return error
        for index in range(load(frame, FRAME.RET_COUNT)):
            size = load(words, _FILL_WORDS * index + _BYTES)
            if size != 0:
                byte = load(words, _FILL_WORDS * index + _PATTERN)
                address = load(load(load(frame, FRAME.RETS), index), BUFFER.DATA)
                error = fill(frame, address, byte, size, load(where, 0))
                if error != 0:
                    return error
        return execute(frame, plan)

    return run


def _host_fill() -> Any:
    memset = np.int64(c_function(ctypes.memset))

    @native
    def fill(frame, address, byte, size, stream):
        call3(memset, address, byte, size)
        return 0

    return fill


def _device_fill() -> Any:
    return stream_fill(c_function(driver.library().cuMemsetD8Async), c_function(driver.describe))


def stream_fill(memset: int, describe: int) -> Any:
    """Native ``fill`` on a CUDA stream, which XLA may be recording.

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
            return create_error(frame, np.int64(ERROR.INTERNAL), call2(describe_address, status, name))
        return 0

    return fill
