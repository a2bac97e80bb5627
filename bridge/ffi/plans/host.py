"""Executes plans that call a C function on the host, once for each element of a batch.

On CUDA the function gets XLA's stream, on which it enqueues its own work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.addresses import Arrays, c_function, keep
from bridge.ffi.native.call_frame import HEADER_WORDS, STREAM_WORD, for_each_element
from bridge.ffi.native.exception_text import create_error, describe, error_code
from bridge.ffi.native.words import call, call2, call5, load, native

_FUNCTION, _CONTEXT, _ACQUIRE, _RELEASE, _MUTEX, SHARES, ELEMENT_NS = range(HEADER_WORDS, HEADER_WORDS + 7)

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
"""Type of ``f(frame, buffers, data, batch_rank, context)``, which runs a kernel once and returns 0 or the address of an
error. ``buffers`` points to the addresses of the buffers (inputs, then outputs), ``data`` to the addresses of their
data for this element of the batch. ``data`` also holds stream and device, where
:data:`~bridge.ffi.native.call_frame.STREAM_WORD` says."""


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
        function: A :data:`FUNCTION`: of ctypes, or its address.
        mutex: Held during the call, if given.
        context: Passed on to ``function``.
        shares: Whether several threads may run elements of one batch, see :mod:`bridge.ffi.plans.shared_batch`.
        alive: Owns the memory and the machine code that the plan refers to.
    """

    function: Any
    mutex: Mutex | None = None
    context: int = 0
    shares: bool = False
    alive: Any = None

    def keep(self, arrays: Arrays) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address.

        Raises:
            SignatureError: The kernel has more arrays than a plan can hold.
        """
        held = self.mutex or Mutex(0, 0, 0)
        function = self.function if isinstance(self.function, int) else c_function(self.function)
        words = [function, self.context, held.acquire, held.release, held.mutex, int(self.shares), 0]
        return keep([*arrays.header(), *words])


def python_plan(name: str, function: Callable[[int, int, Sequence[int]], None], count: int) -> HostPlan:
    """The plan that calls a Python function at each call: the only one that takes the GIL.

    Args:
        name: The kernel, for error messages.
        function: Called with stream, ordinal of the device, and the addresses of the buffers' data.
        count: How many buffers there are.
    """

    @FUNCTION
    def called(frame: int, buffers: int, data: int, batch_rank: int, context: int) -> int:
        addresses = (ctypes.c_int64 * count).from_address(data)
        stream, ordinal = (ctypes.c_int64 * 2).from_address(data + WORD_BYTES * STREAM_WORD)
        try:
            function(stream, ordinal, addresses[:])
        except Exception as error:
            return create_error(frame, describe(name, type(error), error, error.__traceback__), error_code(error))
        return 0

    return HostPlan(called, alive=called)


@native
def call_once(frame, plan, buffers, data, batch_rank):
    """Calls the function of a plan for one element of a batch; returns 0 or an error."""
    return call5(load(plan, _FUNCTION), frame, buffers, data, batch_rank, load(plan, _CONTEXT))


def make_execute(on_stream: bool) -> Any:
    """Native ``(frame, plan) -> error`` that runs a :class:`HostPlan` on the buffers of a frame.

    Args:
        on_stream: Ask XLA for stream and device, for a kernel on CUDA.
    """
    execute = for_each_element(call_once, on_stream)

    @native
    def execute_alone(frame, plan):
        acquire = load(plan, _ACQUIRE)
        if acquire != 0:
            call2(acquire, load(plan, _MUTEX), 1)
        error = execute(frame, plan)
        if acquire != 0:
            call(load(plan, _RELEASE), load(plan, _MUTEX))
        return error

    return execute_alone


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
