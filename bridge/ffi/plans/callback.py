"""Executes plans that call a Python function at each call. This is the only kind of plan that takes the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge.ffi.native.abi import BUFFER, ERROR
from bridge.ffi.native.batch import batch_elements, batch_offset
from bridge.ffi.native.call_frame import MAX_BUFFERS, collect_buffers, miscounted, stream_and_device
from bridge.ffi.native.handler import create_error, native
from bridge.ffi.native.lasting import keep
from bridge.ffi.native.words import call2, load, stack_words, store

_MAX_WORDS = 3 + MAX_BUFFERS
_HEADER_WORDS = 6
(_FUNCTION, _ID, _INPUTS, _OUTPUTS, _BUFFERS, _MISCOUNTED) = range(_HEADER_WORDS)
_RANK, _ITEM_BYTES, _BUFFER_WORDS = 0, 1, 2

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""Type of ``f(identity, words)``. It returns 0, or the address of a C string that describes an error. ``words`` points
to the stream, the device ordinal, the address of each buffer, and the code of the error, which the function may set."""


@dataclass(frozen=True)
class CallbackPlan:
    """A Python function to call with the stream, the device and the addresses of the buffers.

    Attributes:
        name: The function, for error messages.
        function: Address of a :data:`FUNCTION`.
        identity: Passed to the function.
        inputs: Rank (without batch dimensions) and item size in bytes of each input.
        outputs: The same of each output.
    """

    name: str
    function: int
    identity: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]

    def keep(self) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address."""
        words = [0] * _HEADER_WORDS
        words[_FUNCTION], words[_ID] = self.function, self.identity
        words[_INPUTS], words[_OUTPUTS] = len(self.inputs), len(self.outputs)
        words[_BUFFERS] = keep([word for buffer in (*self.inputs, *self.outputs) for word in buffer])
        words[_MISCOUNTED] = miscounted(self.name, self.inputs, self.outputs)
        return keep(words)


def make_execute(on_stream: bool = True) -> Any:
    """Native ``(frame, plan) -> error`` that executes a :class:`CallbackPlan`, once for each element of a batch.

    Args:
        on_stream: Ask XLA for stream and device; if not, both are 0 (for tests: XLA has no streams on the CPU).
    """

    @native
    def execute(frame, plan):
        inputs, outputs = load(plan, _INPUTS), load(plan, _OUTPUTS)
        buffers = stack_words(MAX_BUFFERS)
        if not collect_buffers(frame, inputs, outputs, buffers):
            return create_error(frame, np.int64(ERROR.INVALID_ARGUMENT), load(plan, _MISCOUNTED))
        words = stack_words(_MAX_WORDS)
        store(words, 0, 0)
        store(words, 1, 0)
        if on_stream:
            error = stream_and_device(frame, words)
            if error != 0:
                return error
        sizes, count = load(plan, _BUFFERS), inputs + outputs
        last_output = load(buffers, count - 1)
        batch_rank = load(last_output, BUFFER.RANK) - load(sizes, _BUFFER_WORDS * (count - 1) + _RANK)
        for element in range(batch_elements(last_output, batch_rank)):
            for index in range(count):
                buffer, size = load(buffers, index), _BUFFER_WORDS * index
                offset = batch_offset(
                    buffer, load(sizes, size + _RANK), load(sizes, size + _ITEM_BYTES), last_output, batch_rank, element
                )
                store(words, 2 + index, load(buffer, BUFFER.DATA) + offset)
            store(words, 2 + count, np.int64(ERROR.INTERNAL))
            message = call2(load(plan, _FUNCTION), load(plan, _ID), words)
            if message != 0:
                return create_error(frame, load(words, 2 + count), message)
        return 0

    return execute
