"""Runs the parallel loops of Numba kernels on the threads that XLA computes with.

A loop is divided into parts, as Numba's own threading layers do it: as many as there are threads. The calling thread
takes one part after the other, and so does each thread of XLA that comes to help. So the calling thread waits only for
parts that another thread is running now: if all threads of XLA are busy, it runs all parts itself, and loops may be
nested. A thread that comes late finds no part left.

XLA's threads are awake between two operations of a program. OpenMP's threads have to be woken, which takes longer than
many a loop. On two idle cores (AMD EPYC, 2**20 float32, two-point times in a compiled loop), a matrix-vector product
took 20 us on XLA's threads, 50 us on OpenMP's and 37 us on one thread, and an addition 90, 143 and 166 us.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import warnings
from typing import Any

import numba
from llvmlite import binding
from numba.core.types import int64

from bridge.errors import AbiError, AbiWarning
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.handler import native
from bridge.ffi.native.object_code import LoadedObject
from bridge.ffi.native.prepared import prepared
from bridge.ffi.native.words import (
    add_atomically,
    call,
    call2,
    call4,
    context_word,
    copy_words,
    load,
    load_atomically,
    stack_words,
    store,
)
from bridge.languages.numba_cpu.failures import Storage

PART = Storage()
"""Holds the number of the part that a thread runs, plus one; nothing on a thread that runs none."""

LOOP_WORDS = 8
BODY, ARRAYS, EXTENTS, STEPS, DATA, INNER, ARRAY_COUNT, THREAD_COUNT = range(LOOP_WORDS)
"""Words of a loop: what Numba passes to ``numba_parallel_for``. The first extent is the number of its steps."""

_NEXT, _ENDED, _HOLDERS, _PARTS, _ROUNDING = range(LOOP_WORDS, LOOP_WORDS + 5)
# A job is a copy of the words of a loop, then the next part, the number of parts that have ended, the number of threads
# that may still look at the job, the number of parts, and the settings of the calling thread's floating-point unit.
_ROUNDING_WORDS = 8  # glibc has up to four
_JOB_BYTES = 8 * (_ROUNDING + _ROUNDING_WORDS)

_MOST = 256  # arrays and extents of a loop that fit on the stack

_LOOKS, _YIELDS, _PAUSE_US = 1000, 1000, 50
# A thread that waits for others looks so many times, about 1 us, then gives others its processor, and then sleeps.

(
    _ALLOCATE, _FREE, _YIELD, _SLEEP, _GET, _SET, _KEY, _GET_THREADS, _SET_THREADS, _GET_ROUNDING, _SET_ROUNDING, _TASK
) = range(12)  # fmt: skip
# Words of the context: C functions, and the key of PART.


@functools.cache
def run_address() -> int | None:
    """Address of ``int64_t f(frame, loop)``, which runs a loop and returns 1, or returns 0 and has done nothing.

    None where the system lacks a C function that it needs, or the installed jaxlib says nothing of XLA's threads.

    Warns:
        AbiWarning: It says nothing of them, so loops run on Numba's threading layer.
    """
    try:
        words = _context()
    except AttributeError:
        return None
    try:
        importlib.import_module("bridge.ffi.native.thread_pool")
    except AbiError as error:
        text = f"parallel loops of Numba kernels run on Numba's threading layer, not on XLA's threads. {error}"
        warnings.warn(text, AbiWarning, stacklevel=2)
        return None
    task, run = prepared(_compile_task, "bridge_pool_task"), prepared(_compile_run, "bridge_pool_run")
    words[_TASK] = task.address
    for each in (task, run):
        each.set_context(ctypes.addressof(words))
    _alive.extend([task, run, words])
    return run.address


_alive: list[LoadedObject | ctypes.Array[ctypes.c_int64]] = []
"""XLA may call a task at any time, so these live as long as the process."""


def _context() -> ctypes.Array[ctypes.c_int64]:
    c, python = ctypes.CDLL(None), ctypes.pythonapi
    functions = {
        _ALLOCATE: c.malloc, _FREE: c.free, _YIELD: c.sched_yield, _SLEEP: c.usleep, _GET: python.PyThread_tss_get,
        _SET: python.PyThread_tss_set, _GET_ROUNDING: c.fegetenv, _SET_ROUNDING: c.fesetenv,
    }  # fmt: skip
    words = (ctypes.c_int64 * 12)()
    for index, function in functions.items():
        words[index] = c_function(function)
    words[_KEY] = PART.key
    for index, name in ((_GET_THREADS, "get_num_threads"), (_SET_THREADS, "set_num_threads")):
        address = binding.address_of_symbol(name)
        assert address is not None, "no kernel with a parallel loop has been compiled"
        words[index] = address
    return words


@native
def _take_parts(job):  # type: ignore[no-untyped-def]
    """Runs parts of a job until none is left."""
    parts = load(job, _PARTS)
    part = add_atomically(job, _NEXT, 1)
    if part < parts:
        before = call(context_word(_GET), context_word(_KEY))
        while part < parts:
            call2(context_word(_SET), context_word(_KEY), part + 1)
            _run_part(job, part, parts)
            add_atomically(job, _ENDED, 1)
            part = add_atomically(job, _NEXT, 1)
        call2(context_word(_SET), context_word(_KEY), before)


@native
def _run_part(job, part, parts):  # type: ignore[no-untyped-def]
    """Runs the steps of one part: from each array and extent, the body gets what belongs to them."""
    arrays, extents = stack_words(_MOST), stack_words(_MOST)
    steps, size = load(job, STEPS), load(load(job, EXTENTS), 0)
    first, last = size * part // parts, size * (part + 1) // parts
    copy_words(extents, load(job, EXTENTS), load(job, INNER) + 1)
    store(extents, 0, last - first)
    for index in range(load(job, ARRAY_COUNT)):
        store(arrays, index, load(load(job, ARRAYS), index) + load(steps, index) * first)
    call4(load(job, BODY), arrays, extents, steps, load(job, DATA))


@native
def _let_go(job):  # type: ignore[no-untyped-def]
    """Frees a job that no thread looks at any more."""
    if add_atomically(job, _HOLDERS, -1) == 1:
        call(context_word(_FREE), job)


def _compile_task() -> Any:
    @numba.cfunc(int64(int64), error_model="numpy")
    def bridge_pool_task(job):  # type: ignore[no-untyped-def]
        """What a thread of XLA does: helps with a job, as a thread with the settings of the calling one."""
        if load_atomically(job, _NEXT) < load(job, _PARTS):
            rounding = stack_words(_ROUNDING_WORDS)
            call(context_word(_GET_ROUNDING), rounding)
            threads = call(context_word(_GET_THREADS), 0) & 0xFFFFFFFF  # a C int
            call(context_word(_SET_ROUNDING), job + 8 * _ROUNDING)
            call(context_word(_SET_THREADS), load(job, THREAD_COUNT))
            _take_parts(job)
            call(context_word(_SET_THREADS), threads)
            call(context_word(_SET_ROUNDING), rounding)
        _let_go(job)
        return 0

    return bridge_pool_task


def _compile_run() -> Any:
    from bridge.ffi.native.thread_pool import pool_threads, schedule

    @numba.cfunc(int64(int64, int64), error_model="numpy")
    def bridge_pool_run(frame, loop):  # type: ignore[no-untyped-def]
        threads, size = load(loop, THREAD_COUNT), load(load(loop, EXTENTS), 0)
        if load(loop, ARRAY_COUNT) > _MOST or load(loop, INNER) >= _MOST or pool_threads(frame) < threads:
            return 0
        job = call(context_word(_ALLOCATE), _JOB_BYTES)
        if job == 0:
            return 0
        parts = min(size, threads)
        copy_words(job, loop, LOOP_WORDS)
        store(job, _NEXT, 0)
        store(job, _ENDED, 0)
        store(job, _PARTS, parts)
        store(job, _HOLDERS, max(1, parts))  # this thread, and one for each part but one
        call(context_word(_GET_ROUNDING), job + 8 * _ROUNDING)
        for _ in range(parts - 1):
            if not schedule(frame, context_word(_TASK), job):
                add_atomically(job, _HOLDERS, -1)
        _take_parts(job)
        looks = 0
        while load_atomically(job, _ENDED) < parts:
            looks += 1
            if looks > _LOOKS + _YIELDS:
                call(context_word(_SLEEP), _PAUSE_US)
            elif looks > _LOOKS:
                call(context_word(_YIELD), 0)
        _let_go(job)
        return 1

    return bridge_pool_run
