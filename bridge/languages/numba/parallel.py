"""Runs the parallel loops of Numba kernels on the threads that XLA computes with.

Numba drops an exception that is raised inside a parallel loop, and its workqueue layer aborts the process when a loop
starts while another one runs. Here the threads that run a loop know the record of the call, and loops never wait for
each other, see :mod:`bridge.ffi.native.shared_work`. A loop is divided into parts, as Numba's own threading layers do
it: as many as Numba has threads, whatever the number of XLA's. Where XLA has none, as on one processor, the calling
thread runs the whole loop.

XLA's threads are awake between two operations of a program. OpenMP's threads have to be woken, which takes longer than
many a loop. On two idle cores (AMD EPYC, 2**20 float32, two-point times in a compiled loop), a matrix-vector product
took 20 us on XLA's threads, 50 us on OpenMP's and 37 us on one thread, and an addition 90, 143 and 166 us.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numba
from numba.core.types import int64

from bridge.compat.numba import runtime_address
from bridge.ffi.native.addresses import LoadedObject, c_function
from bridge.ffi.native.object_code import prepared
from bridge.ffi.native.shared_work import share_address
from bridge.ffi.native.words import (
    call,
    call2,
    call4,
    call5,
    context_word,
    copy_words,
    load,
    native,
    stack_words,
    store,
)
from bridge.languages.numba.failures import FRAME, RECORD, Storage

_PART = Storage("bridge_part")
# Holds the number of the part that a thread runs, plus one; nothing on a thread that runs none.

_LOOP_WORDS = 9
_BODY, _ARRAYS, _EXTENTS, _STEPS, _DATA, _INNER, _ARRAY_COUNT, _THREADS, _RECORD = range(_LOOP_WORDS)
# Words of a loop: what Numba passes to numba_parallel_for, and the record of the call. The first extent is the number
# of its steps.

_MOST = 256  # arrays and extents of a loop that fit on the stack

_CONTEXT_WORDS = 8
_GET, _SET, _GET_THREADS, _SET_THREADS, _PART_KEY, _RECORD_KEY, _SHARE, _RUN_PART = range(_CONTEXT_WORDS)
# Words of the context: C functions, functions of Numba's threading layer, keys of storage, our own functions.


@functools.cache
def functions() -> tuple[int, int]:
    """Addresses of two functions that the loops of kernels call.

    The first does what ``numba_parallel_for`` does. The second returns the number of the part that a thread runs; 0
    outside of a loop. Numba keeps the sums of a loop by this number. So a sum does not depend on which thread runs a
    part.
    """
    words, python = (ctypes.c_int64 * _CONTEXT_WORDS)(), ctypes.pythonapi
    words[_GET], words[_SET] = c_function(python.PyThread_tss_get), c_function(python.PyThread_tss_set)
    words[_PART_KEY], words[_RECORD_KEY] = _PART.key, RECORD.key
    words[_GET_THREADS], words[_SET_THREADS] = map(runtime_address, ("get_num_threads", "set_num_threads"))
    part, run, number = (
        prepared(compile_now, name)
        for compile_now, name in (
            (_compile_part, "bridge_loop_part"),
            (_compile_for, "bridge_parallel_for"),
            (_compile_number, "bridge_thread_number"),
        )
    )
    words[_SHARE], words[_RUN_PART] = share_address(), part.address
    for each in (part, run, number):
        each.set_context(ctypes.addressof(words))
    _alive.extend([part, run, number, words])
    return run.address, number.address


_alive: list[LoadedObject | ctypes.Array[ctypes.c_int64]] = []
"""Machine code calls these as long as the process lives."""


@native
def _swap(key, value):
    """Stores a word for this thread; returns the one before."""
    before = call(context_word(_GET), key)
    call2(context_word(_SET), key, value)
    return before


def _compile_part() -> Any:
    @numba.cfunc(int64(*[int64] * 4), error_model="numpy")
    def bridge_loop_part(loop, part, first, last):
        """Runs the steps of one part: from each array and extent, the body gets what belongs to them."""
        arrays, extents, steps = stack_words(_MOST), stack_words(_MOST), load(loop, _STEPS)
        copy_words(extents, load(loop, _EXTENTS), load(loop, _INNER) + 1)
        store(extents, 0, last - first)
        for index in range(load(loop, _ARRAY_COUNT)):
            store(arrays, index, load(load(loop, _ARRAYS), index) + load(steps, index) * first)
        record = _swap(context_word(_RECORD_KEY), load(loop, _RECORD))
        before = _swap(context_word(_PART_KEY), part + 1)
        threads = call(context_word(_GET_THREADS), 0) & 0xFFFFFFFF  # a C int
        call(context_word(_SET_THREADS), load(loop, _THREADS))
        call4(load(loop, _BODY), arrays, extents, steps, load(loop, _DATA))
        call(context_word(_SET_THREADS), threads)
        _swap(context_word(_PART_KEY), before)
        _swap(context_word(_RECORD_KEY), record)
        return 0

    return bridge_loop_part


def _compile_for() -> Any:
    @native
    def run_on_pool(frame, loop):
        """Runs a loop on XLA's threads; returns 0, and has done nothing, where that cannot be."""
        share, run, threads = context_word(_SHARE), context_word(_RUN_PART), load(loop, _THREADS)
        if load(loop, _ARRAY_COUNT) > _MOST or load(loop, _INNER) >= _MOST:
            return 0
        return call5(share, frame, run, loop, load(load(loop, _EXTENTS), 0), threads)

    @numba.cfunc(int64(*[int64] * 8), error_model="numpy")
    def bridge_parallel_for(body, arrays, extents, steps, data, inner, array_count, threads):
        loop = stack_words(_LOOP_WORDS)
        record = call(context_word(_GET), context_word(_RECORD_KEY))
        store(loop, _BODY, body)
        store(loop, _ARRAYS, arrays)
        store(loop, _EXTENTS, extents)
        store(loop, _STEPS, steps)
        store(loop, _DATA, data)
        store(loop, _INNER, inner)
        store(loop, _ARRAY_COUNT, array_count)
        store(loop, _THREADS, threads)
        store(loop, _RECORD, record)
        if not run_on_pool(load(record, FRAME), loop):
            part = _swap(context_word(_PART_KEY), 1)
            call4(body, arrays, extents, steps, data)
            _swap(context_word(_PART_KEY), part)
        return 0

    return bridge_parallel_for


def _compile_number() -> Any:
    @numba.cfunc(int64(), error_model="numpy")
    def bridge_thread_number():
        part = call(context_word(_GET), context_word(_PART_KEY))
        return part - 1 if part != 0 else 0

    return bridge_thread_number
