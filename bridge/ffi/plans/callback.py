"""Executes plans that call a Python function at each call. This is the only kind of plan that takes the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge.ffi.native.abi import ERROR
from bridge.ffi.native.addresses import keep
from bridge.ffi.native.call_frame import (
    HEADER_WORDS,
    MAX_BUFFERS,
    batch_elements,
    batch_rank_of,
    buffer_count,
    collect_buffers,
    element_address,
    plan_header,
    stream_and_device,
)
from bridge.ffi.native.handler import create_error, native
from bridge.ffi.native.words import call2, load, stack_words, store

_MAX_WORDS = 3 + MAX_BUFFERS
_FUNCTION, _ID = HEADER_WORDS, HEADER_WORDS + 1

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
        alive: Owns the memory and the machine code that the plan refers to.
    """

    name: str
    function: int
    identity: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    alive: Any = None

    def keep(self) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address."""
        return keep([*plan_header(self.name, self.inputs, self.outputs), self.function, self.identity])


def make_execute(on_stream: bool = True) -> Any:
    """Native ``(frame, plan) -> error`` that executes a :class:`CallbackPlan`, once for each element of a batch.

    Args:
        on_stream: Ask XLA for stream and device; if not, both are 0: XLA has no streams on the CPU.
    """

    @native
    def execute(frame, plan):
        buffers, words = stack_words(MAX_BUFFERS), stack_words(_MAX_WORDS)
        error = collect_buffers(frame, plan, buffers)
        if error != 0:
            return error
        error = stream_and_device(frame, words, on_stream)
        if error != 0:
            return error
        count, batch_rank = buffer_count(plan), batch_rank_of(plan, buffers)
        for element in range(batch_elements(plan, buffers, batch_rank)):
            for index in range(count):
                store(words, 2 + index, element_address(plan, buffers, index, batch_rank, element))
            store(words, 2 + count, np.int64(ERROR.INTERNAL))
            message = call2(load(plan, _FUNCTION), load(plan, _ID), words)
            if message != 0:
                return create_error(frame, load(words, 2 + count), message)
        return 0

    return execute
