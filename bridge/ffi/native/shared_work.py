"""Shares work between the threads that XLA computes with, in native code: parts of a loop, or of a batch.

The calling thread takes one part after the other, and so does each thread of XLA that comes to help. So the calling
thread waits only for parts that another thread is running now: if all threads of XLA are busy, it runs all parts
itself, and shared work may share work of its own. A thread that comes late finds no part left.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numba
from numba.core.types import int64

from bridge.ffi.native.addresses import LoadedObject, c_function
from bridge.ffi.native.object_code import prepared
from bridge.ffi.native.words import (
    add_atomically,
    call,
    call4,
    context_word,
    load,
    load_atomically,
    native,
    stack_words,
    store,
)

_JOB_WORDS = 7
_RUN, _DATA, _SIZE, _NEXT, _ENDED, _HOLDERS, _PARTS = range(_JOB_WORDS)
_ROUNDING, _ROUNDING_WORDS = _JOB_WORDS, 8  # glibc has up to four
# A job is work that threads share: its function and data, the number of steps, the next part, the number of parts that
# have ended, the number of threads that may still look at the job, the number of parts, and the settings of the calling
# thread's floating-point unit: XLA's threads flush denormal numbers to zero, the thread that calls a kernel does not.

_PARTS_OF_A_THREAD = 8
# So threads end at about the same time, though some steps take longer or a thread comes late.

_LOOKS, _YIELDS, _PAUSE_US = 1000, 1000, 50
# A thread that waits for others looks so many times, about 1 us, then gives others its processor, and then sleeps.

_CONTEXT_WORDS = 7
_ALLOCATE, _FREE, _YIELD, _SLEEP, _GET_ROUNDING, _SET_ROUNDING, _TASK = range(_CONTEXT_WORDS)


@functools.cache
def share_address() -> int:
    """Address of ``share(frame, run, data, size, threads)``, which runs so many steps on XLA's threads, and waits.

    It calls ``run(data, part, first, last)`` for each part of the steps, ``last`` not included, and returns how many
    threads it asked for, the calling one included. It returns 0, and has done nothing, where XLA has no threads. There
    are at most ``threads`` parts, of which a thread of XLA may run several. With 0 there are some for each of them.
    """
    words, c = (ctypes.c_int64 * _CONTEXT_WORDS)(), ctypes.CDLL(None)
    task, share = prepared(_compile_task, "bridge_task"), prepared(_compile_share, "bridge_share")
    for index, function in (
        (_ALLOCATE, c.malloc), (_FREE, c.free), (_YIELD, c.sched_yield), (_SLEEP, c.usleep),
        (_GET_ROUNDING, c.fegetenv), (_SET_ROUNDING, c.fesetenv),
    ):  # fmt: skip
        words[index] = c_function(function)
    words[_TASK] = task.address
    for each in (task, share):
        each.set_context(ctypes.addressof(words))
    _alive.extend([task, share, words])
    return share.address


_alive: list[LoadedObject | ctypes.Array[ctypes.c_int64]] = []
"""XLA may call a task at any time, so these live as long as the process."""


@native
def _take_parts(job):
    """Runs parts of a job until none is left."""
    parts = load(job, _PARTS)
    part = add_atomically(job, _NEXT, 1)
    while part < parts:
        size = load(job, _SIZE)
        call4(load(job, _RUN), load(job, _DATA), part, size * part // parts, size * (part + 1) // parts)
        add_atomically(job, _ENDED, 1)
        part = add_atomically(job, _NEXT, 1)


@native
def _let_go(job):
    """Frees a job that no thread looks at any more."""
    if add_atomically(job, _HOLDERS, -1) == 1:
        call(context_word(_FREE), job)


def _compile_task() -> Any:
    @numba.cfunc(int64(int64), error_model="numpy")
    def bridge_task(job):
        """What a thread of XLA does: helps with a job, as a thread with the settings of the calling one."""
        if load_atomically(job, _NEXT) < load(job, _PARTS):
            rounding = stack_words(_ROUNDING_WORDS)
            call(context_word(_GET_ROUNDING), rounding)
            call(context_word(_SET_ROUNDING), job + 8 * _ROUNDING)
            _take_parts(job)
            call(context_word(_SET_ROUNDING), rounding)
        _let_go(job)
        return 0

    return bridge_task


def _compile_share() -> Any:
    from bridge.ffi.native.thread_pool import pool_threads, schedule

    @numba.cfunc(int64(*[int64] * 5), error_model="numpy")
    def bridge_share(frame, run, data, size, threads):
        has = pool_threads(frame)
        if has == 0:
            return 0
        job = call(context_word(_ALLOCATE), 8 * (_JOB_WORDS + _ROUNDING_WORDS))
        if job == 0:
            return 0
        parts = min(size, threads if threads != 0 else has * _PARTS_OF_A_THREAD)
        asked = max(1, min(parts, has))
        store(job, _RUN, run)
        store(job, _DATA, data)
        store(job, _SIZE, size)
        store(job, _NEXT, 0)
        store(job, _ENDED, 0)
        store(job, _HOLDERS, asked)
        store(job, _PARTS, parts)
        call(context_word(_GET_ROUNDING), job + 8 * _ROUNDING)
        for _ in range(asked - 1):
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
        return asked

    return bridge_share
