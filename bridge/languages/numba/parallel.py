"""Runs the parallel loops of Numba kernels on the threads that XLA computes with.

Numba drops an exception that is raised inside a parallel loop, and its workqueue layer aborts the process when a loop
starts while another one runs. Here the threads that run a loop know the record of the call, and loops never wait for
each other. A loop is divided into parts, as Numba's own threading layers do it: as many as there are threads. The
calling thread takes one part after the other, and so does each thread of XLA that comes to help. So the calling thread
waits only for parts that another thread is running now: if all threads of XLA are busy, it runs all parts itself, and
loops may be nested. A thread that comes late finds no part left.

XLA's threads are awake between two operations of a program. OpenMP's threads have to be woken, which takes longer than
many a loop. On two idle cores (AMD EPYC, 2**20 float32, two-point times in a compiled loop), a matrix-vector product
took 20 us on XLA's threads, 50 us on OpenMP's and 37 us on one thread, and an addition 90, 143 and 166 us. A loop for
more threads than XLA has runs on Numba's threading layer.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from typing import Any

import numba
from numba.core.types import int64

from bridge.compat.numba import PARALLEL_FOR, THREAD_NUMBER, runtime_address
from bridge.errors import AbiError, AbiWarning
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.object_code import LoadedObject, prepared
from bridge.ffi.native.words import (
    add_atomically,
    call,
    call2,
    call4,
    call8,
    context_word,
    copy_words,
    load,
    load_atomically,
    native,
    stack_words,
    store,
)
from bridge.ffi.plans.host import Mutex
from bridge.languages.numba.failures import FRAME, RECORD, Storage

_PART = Storage("bridge_part")
# Holds the number of the part that a thread runs, plus one; nothing on a thread that runs none.

_LOOP_WORDS = 8
_BODY, _ARRAYS, _EXTENTS, _STEPS, _DATA, _INNER, _ARRAY_COUNT, _THREADS = range(_LOOP_WORDS)
# Words of a loop: what Numba passes to numba_parallel_for. The first extent is the number of its steps.

_RECORD, _NEXT, _ENDED, _HOLDERS, _PARTS, _ROUNDING = range(_LOOP_WORDS, _LOOP_WORDS + 6)
_ROUNDING_WORDS = 8  # glibc has up to four
_JOB_WORDS = _ROUNDING + _ROUNDING_WORDS
# A job is a loop that threads share: its words, the record of the call, the next part, the number of parts that have
# ended, the number of threads that may still look at the job, the number of parts, and the settings of the calling
# thread's floating-point unit: XLA's threads flush denormal numbers to zero, the thread that calls a kernel does not.

_MOST = 256  # arrays and extents of a loop that fit on the stack

_LOOKS, _YIELDS, _PAUSE_US = 1000, 1000, 50
# A thread that waits for others looks so many times, about 1 us, then gives others its processor, and then sleeps.

_CONTEXT_WORDS = 19
(
    _ALLOCATE, _FREE, _YIELD, _SLEEP, _GET, _SET, _GET_ROUNDING, _SET_ROUNDING, _GET_THREADS, _SET_THREADS,
    _LAYER_FOR, _LAYER_NUMBER, _PART_KEY, _RECORD_KEY, _TASK, _WORKER, _MUTEX, _ACQUIRE, _RELEASE,
) = range(_CONTEXT_WORDS)  # fmt: skip
# Words of the context: C functions, functions of Numba's threading layer, keys of storage, our own functions, a mutex.


def for_address() -> int:
    """Address of a function that does what ``numba_parallel_for`` does, for a loop of a kernel."""
    return _functions()[0]


def thread_number_address() -> int:
    """Address of a function that returns the number of the part that a thread runs, else of Numba's layer its thread.

    Numba keeps the sums of a loop by this number. So a sum does not depend on which thread runs a part.
    """
    return _functions()[1]


@functools.cache
def _functions() -> tuple[int, int]:
    words = _context()
    task, worker, run, number = (
        prepared(compile_now, name)
        for compile_now, name in (
            (_compile_task, "bridge_loop_task"),
            (_compile_worker, "bridge_loop_worker"),
            (_compile_for, "bridge_parallel_for"),
            (_compile_number, "bridge_thread_number"),
        )
    )
    words[_TASK], words[_WORKER] = task.address, worker.address
    for each in (task, worker, run, number):
        each.set_context(ctypes.addressof(words))
    _alive.extend([task, worker, run, number, words])
    return run.address, number.address


_alive: list[LoadedObject | ctypes.Array[ctypes.c_int64]] = []
"""XLA may call a task at any time, so these live as long as the process."""


def _context() -> ctypes.Array[ctypes.c_int64]:
    c, python = ctypes.CDLL(None), ctypes.pythonapi
    functions = {
        _ALLOCATE: c.malloc, _FREE: c.free, _YIELD: c.sched_yield, _SLEEP: c.usleep, _GET: python.PyThread_tss_get,
        _SET: python.PyThread_tss_set, _GET_ROUNDING: c.fegetenv, _SET_ROUNDING: c.fesetenv,
    }  # fmt: skip
    words = (ctypes.c_int64 * _CONTEXT_WORDS)()
    for index, function in functions.items():
        words[index] = c_function(function)
    words[_PART_KEY], words[_RECORD_KEY] = _PART.key, RECORD.key
    for index, name in (
        (_GET_THREADS, "get_num_threads"), (_SET_THREADS, "set_num_threads"), (_LAYER_FOR, PARALLEL_FOR),
        (_LAYER_NUMBER, THREAD_NUMBER),
    ):  # fmt: skip
        words[index] = runtime_address(name)
    if numba.threading_layer() == "workqueue":  # can run only one loop at a time
        mutex = Mutex.new()
        words[_MUTEX], words[_ACQUIRE], words[_RELEASE] = mutex.mutex, mutex.acquire, mutex.release
    return words


@native
def _swap(key, value):
    """Stores a word for this thread; returns the one before."""
    before = call(context_word(_GET), key)
    call2(context_word(_SET), key, value)
    return before


@native
def _take_parts(job):
    """Runs parts of a job until none is left."""
    parts = load(job, _PARTS)
    part = add_atomically(job, _NEXT, 1)
    if part < parts:
        record = _swap(context_word(_RECORD_KEY), load(job, _RECORD))
        before = call(context_word(_GET), context_word(_PART_KEY))
        while part < parts:
            call2(context_word(_SET), context_word(_PART_KEY), part + 1)
            _run_part(job, part, parts)
            add_atomically(job, _ENDED, 1)
            part = add_atomically(job, _NEXT, 1)
        _swap(context_word(_PART_KEY), before)
        _swap(context_word(_RECORD_KEY), record)


@native
def _run_part(job, part, parts):
    """Runs the steps of one part: from each array and extent, the body gets what belongs to them."""
    arrays, extents = stack_words(_MOST), stack_words(_MOST)
    steps, size = load(job, _STEPS), load(load(job, _EXTENTS), 0)
    first, last = size * part // parts, size * (part + 1) // parts
    copy_words(extents, load(job, _EXTENTS), load(job, _INNER) + 1)
    store(extents, 0, last - first)
    for index in range(load(job, _ARRAY_COUNT)):
        store(arrays, index, load(load(job, _ARRAYS), index) + load(steps, index) * first)
    call4(load(job, _BODY), arrays, extents, steps, load(job, _DATA))


@native
def _let_go(job):
    """Frees a job that no thread looks at any more."""
    if add_atomically(job, _HOLDERS, -1) == 1:
        call(context_word(_FREE), job)


def _compile_task() -> Any:
    @numba.cfunc(int64(int64), error_model="numpy")
    def bridge_loop_task(job):
        """What a thread of XLA does: helps with a job, as a thread with the settings of the calling one."""
        if load_atomically(job, _NEXT) < load(job, _PARTS):
            rounding = stack_words(_ROUNDING_WORDS)
            call(context_word(_GET_ROUNDING), rounding)
            threads = call(context_word(_GET_THREADS), 0) & 0xFFFFFFFF  # a C int
            call(context_word(_SET_ROUNDING), job + 8 * _ROUNDING)
            call(context_word(_SET_THREADS), load(job, _THREADS))
            _take_parts(job)
            call(context_word(_SET_THREADS), threads)
            call(context_word(_SET_ROUNDING), rounding)
        _let_go(job)
        return 0

    return bridge_loop_task


def _compile_for() -> Any:
    try:
        from bridge.ffi.native.thread_pool import pool_threads, schedule
    except AbiError as error:
        text = f"parallel loops of Numba kernels run on Numba's threading layer, not on XLA's threads. {error}"
        warnings.warn(text, AbiWarning, stacklevel=2)
        pool_threads = schedule = native(lambda *_: 0)

    @native
    def run_on_pool(frame, loop):
        """Runs a loop on XLA's threads; returns 0, and has done nothing, where that cannot be."""
        threads, size = load(loop, _THREADS), load(load(loop, _EXTENTS), 0)
        if load(loop, _ARRAY_COUNT) > _MOST or load(loop, _INNER) >= _MOST or pool_threads(frame) < threads:
            return 0
        job = call(context_word(_ALLOCATE), 8 * _JOB_WORDS)
        if job == 0:
            return 0
        parts = min(size, threads)
        copy_words(job, loop, _NEXT)  # with the record
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

    @native
    def run_on_layer(loop):
        """Runs a loop on Numba's threading layer, or on this thread alone if the layer is busy: so nothing waits."""
        part = _swap(context_word(_PART_KEY), 0)
        arrays, extents, steps = load(loop, _ARRAYS), load(loop, _EXTENTS), load(loop, _STEPS)
        mutex = context_word(_MUTEX)
        if mutex != 0 and call2(context_word(_ACQUIRE), mutex, 0) & 0xFFFFFFFF == 0:  # a C int
            call4(load(loop, _BODY), arrays, extents, steps, load(loop, _DATA))
        else:
            run, worker, inner = context_word(_LAYER_FOR), context_word(_WORKER), load(loop, _INNER)
            count, threads = load(loop, _ARRAY_COUNT), load(loop, _THREADS)
            call8(run, worker, arrays, extents, steps, loop, inner, count, threads)
            if mutex != 0:
                call(context_word(_RELEASE), mutex)
        _swap(context_word(_PART_KEY), part)

    @numba.cfunc(int64(*[int64] * _LOOP_WORDS), error_model="numpy")
    def bridge_parallel_for(body, arrays, extents, steps, data, inner, array_count, threads):
        loop = stack_words(_NEXT)
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
            run_on_layer(loop)
        return 0

    return bridge_parallel_for


def _compile_worker() -> Any:
    @numba.cfunc(int64(int64, int64, int64, int64), error_model="numpy")
    def bridge_loop_worker(arrays, extents, steps, loop):
        """The body that the layer runs in the place of a loop's own: gives its thread the record meanwhile."""
        record = _swap(context_word(_RECORD_KEY), load(loop, _RECORD))
        call4(load(loop, _BODY), arrays, extents, steps, load(loop, _DATA))
        _swap(context_word(_RECORD_KEY), record)
        return 0

    return bridge_loop_worker


def _compile_number() -> Any:
    @numba.cfunc(int64(), error_model="numpy")
    def bridge_thread_number():
        part = call(context_word(_GET), context_word(_PART_KEY))
        return part - 1 if part != 0 else call(context_word(_LAYER_NUMBER), 0)

    return bridge_thread_number
