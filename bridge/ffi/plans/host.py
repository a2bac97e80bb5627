"""Executes plans that call a C function on the host, once for each element of a batch.

On CUDA the function gets XLA's stream, on which it enqueues its own work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.addresses import c_function, keep
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
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import call, call2, call5, load, stack_words, store

_FUNCTION, _CONTEXT, _ACQUIRE, _RELEASE, _MUTEX = range(HEADER_WORDS, HEADER_WORDS + 5)

STREAM = MAX_BUFFERS
"""Word of ``data`` that holds XLA's CUDA stream, in plans that :func:`make_execute_on_stream` runs."""

DEVICE = MAX_BUFFERS + 1
"""Word of ``data`` that holds the ordinal of the device there, which is the current one."""

_DATA_WORDS = MAX_BUFFERS + 2


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
        alive: Owns the memory and the machine code that the plan refers to.
    """

    name: str
    function: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    mutex: Mutex | None = None
    context: int = 0
    alive: Any = None

    def keep(self) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address.

        Raises:
            SignatureError: The kernel has more arrays than a plan can hold.
        """
        held = self.mutex or Mutex(0, 0, 0)
        header = plan_header(self.name, self.inputs, self.outputs)
        return keep([*header, self.function, self.context, held.acquire, held.release, held.mutex])


@native
def execute(frame, plan):
    """Native code: runs a :class:`HostPlan` on the buffers of a frame. Returns 0 or the address of an error."""
    buffers = stack_words(MAX_BUFFERS)
    error = collect_buffers(frame, plan, buffers)
    if error != 0:
        return error
    acquire = load(plan, _ACQUIRE)
    if acquire != 0:
        call2(acquire, load(plan, _MUTEX), 1)
    error = _run_batch(frame, plan, buffers, stack_words(MAX_BUFFERS))
    if acquire != 0:
        call(load(plan, _RELEASE), load(plan, _MUTEX))
    return error


def make_execute_on_stream(on_stream: bool = True) -> Any:
    """Native ``(frame, plan) -> error`` that runs a :class:`HostPlan` without a mutex, on device memory.

    The function finds XLA's stream in word :data:`STREAM` of ``data``, and the device in word :data:`DEVICE`.

    Args:
        on_stream: Ask XLA for stream and device; if not, both are 0 (for tests: XLA has no streams on the CPU).
    """

    @native
    def execute_on_stream(frame, plan):
        buffers, data = stack_words(MAX_BUFFERS), stack_words(_DATA_WORDS)
        error = collect_buffers(frame, plan, buffers)
        if error != 0:
            return error
        error = stream_and_device(frame, data + WORD_BYTES * STREAM, on_stream)
        if error != 0:
            return error
        return _run_batch(frame, plan, buffers, data)

    return execute_on_stream


def in_turn(execute: Any, mutex: Mutex) -> Any:
    """Native ``(frame, plan) -> error`` that holds a mutex while another one runs."""
    acquire, release, held = np.int64(mutex.acquire), np.int64(mutex.release), np.int64(mutex.mutex)

    @native
    def execute_in_turn(frame, plan):
        call2(acquire, held, 1)
        error = execute(frame, plan)
        call(release, held)
        return error

    return execute_in_turn


@native
def _run_batch(frame, plan, buffers, data):
    batch_rank = batch_rank_of(plan, buffers)
    for element in range(batch_elements(plan, buffers, batch_rank)):
        for index in range(buffer_count(plan)):
            store(data, index, element_address(plan, buffers, index, batch_rank, element))
        error = call5(load(plan, _FUNCTION), frame, buffers, data, batch_rank, load(plan, _CONTEXT))
        if error != 0:
            return error
    return 0
