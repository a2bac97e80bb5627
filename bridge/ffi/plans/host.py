"""Executes plans that call a C function on the host, once for each element of a batch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridge.ffi.native.abi import BUFFER, ERROR
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.batch import batch_elements, batch_offset
from bridge.ffi.native.call_frame import MAX_BUFFERS, collect_buffers, miscounted
from bridge.ffi.native.handler import create_error, native
from bridge.ffi.native.lasting import keep
from bridge.ffi.native.words import call, call2, call5, load, stack_words, store

_HEADER_WORDS = 8
_FUNCTION, _CONTEXT, _INPUTS, _OUTPUTS, _ACQUIRE, _RELEASE, _MUTEX, _MISCOUNTED = range(_HEADER_WORDS)
# The header is followed by two words for each buffer: rank without batch dimensions, and bytes of an item.
_RANK, _ITEM_BYTES, _BUFFER_WORDS = 0, 1, 2


@dataclass(frozen=True)
class Mutex:
    """Addresses of a C mutex and of the functions ``acquire(mutex, 1)`` and ``release(mutex)``."""

    acquire: int
    release: int
    mutex: int

    @classmethod
    def new(cls) -> Mutex:
        """A mutex of CPython, which exists on every platform and needs no GIL. It is never freed."""
        allocate = ctypes.pythonapi.PyThread_allocate_lock
        allocate.restype = ctypes.c_void_p
        acquire, release = ctypes.pythonapi.PyThread_acquire_lock, ctypes.pythonapi.PyThread_release_lock
        return cls(c_function(acquire), c_function(release), int(allocate()))


@dataclass(frozen=True)
class HostPlan:
    """How to call one compiled kernel.

    Attributes:
        name: The kernel, for error messages.
        function: Address of ``int64_t f(frame, buffers, data, batch_rank, context)``, which runs the kernel once and
            returns 0 or the address of an error. ``buffers`` points to the addresses of the buffers (inputs, then
            outputs), ``data`` to the addresses of their data for this element of the batch.
        inputs: Rank and item size in bytes of each input.
        outputs: The same of each output; at least one.
        mutex: Held during the call, if given.
        context: Passed on to ``function``.
    """

    name: str
    function: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    mutex: Mutex | None = None
    context: int = 0

    def keep(self) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address.

        Raises:
            SignatureError: The kernel has more arrays than a plan can hold.
        """
        buffers = [*self.inputs, *self.outputs]
        header = [0] * _HEADER_WORDS
        header[_FUNCTION], header[_CONTEXT] = self.function, self.context
        header[_INPUTS], header[_OUTPUTS] = len(self.inputs), len(self.outputs)
        header[_MISCOUNTED] = miscounted(self.name, self.inputs, self.outputs)
        if self.mutex is not None:
            header[_ACQUIRE], header[_RELEASE], header[_MUTEX] = (
                self.mutex.acquire,
                self.mutex.release,
                self.mutex.mutex,
            )
        return keep(header + [word for buffer in buffers for word in buffer])


@native
def execute(frame, plan):
    """Native code: runs a :class:`HostPlan` on the buffers of a frame. Returns 0 or the address of an error."""
    inputs, outputs = load(plan, _INPUTS), load(plan, _OUTPUTS)
    buffers = stack_words(MAX_BUFFERS)
    if not collect_buffers(frame, inputs, outputs, buffers):
        return create_error(frame, np.int64(ERROR.INVALID_ARGUMENT), load(plan, _MISCOUNTED))
    acquire = load(plan, _ACQUIRE)
    if acquire != 0:
        call2(acquire, load(plan, _MUTEX), 1)
    error = _run_batch(frame, plan, buffers, inputs + outputs)
    if acquire != 0:
        call(load(plan, _RELEASE), load(plan, _MUTEX))
    return error


@native
def _run_batch(frame, plan, buffers, count):
    function, context = load(plan, _FUNCTION), load(plan, _CONTEXT)
    last_output = load(buffers, count - 1)
    batch_rank = load(last_output, BUFFER.RANK) - load(plan, _HEADER_WORDS + _BUFFER_WORDS * (count - 1) + _RANK)
    data = stack_words(MAX_BUFFERS)
    for element in range(batch_elements(last_output, batch_rank)):
        for index in range(count):
            buffer = load(buffers, index)
            address = load(buffer, BUFFER.DATA)
            if batch_rank != 0:
                about = _HEADER_WORDS + _BUFFER_WORDS * index
                address += batch_offset(
                    buffer, load(plan, about + _RANK), load(plan, about + _ITEM_BYTES), last_output, batch_rank, element
                )
            store(data, index, address)
        error = call5(function, frame, buffers, data, batch_rank, context)
        if error != 0:
            return error
    return 0
