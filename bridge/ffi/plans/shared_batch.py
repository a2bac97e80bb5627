"""Executes plans of :mod:`bridge.ffi.plans.host`, and shares their batches between XLA's threads.

To wake a thread takes some microseconds. So a plan knows how long an element took the last time, and a short batch runs
on the calling thread alone.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

import numba
import numpy as np
from numba.core.types import int64

from bridge.ffi.native.addresses import MAX_BUFFERS, c_function
from bridge.ffi.native.call_frame import (
    DATA_WORDS,
    DEVICE_WORD,
    FOR_EXECUTE,
    STREAM_WORD,
    batch_elements,
    batch_rank_of,
    collect_buffers,
    run_elements,
)
from bridge.ffi.native.object_code import prepared
from bridge.ffi.native.shared_work import share_address
from bridge.ffi.native.words import (
    add_atomically,
    call2,
    call4,
    call5,
    context_word,
    load,
    load_atomically,
    native,
    stack_words,
    store,
)
from bridge.ffi.plans import host

_WORTH_NS = 20_000

_BATCH_WORDS = 6
_FRAME, _PLAN, _BUFFERS, _RANK, _FAILURES, _ERROR = range(_BATCH_WORDS)
# What the threads know of a batch: its call, the number of parts that have failed, and the error of the first of them.

_SHARE, _RUN_PART, _CLOCK, _WORDS = range(4)


@functools.cache
def words_for_execute() -> int:
    """Address of the words that the code of :func:`make_execute` reads."""
    part = prepared(_compile_part, "bridge_batch_part")
    words = (ctypes.c_int64 * _WORDS)(share_address(), part.address, c_function(ctypes.CDLL(None).clock_gettime))
    _alive.extend([part, words])
    return ctypes.addressof(words)


_alive: list[Any] = []
"""Machine code calls these as long as the process lives."""


def _compile_part() -> Any:
    from bridge.ffi.native.thread_pool import destroy

    @numba.cfunc(int64(*[int64] * 4), error_model="numpy")
    def bridge_batch_part(batch, part, first, last):
        """Runs elements of a batch, unless another part has failed."""
        if load_atomically(batch, _FAILURES) == 0:
            frame, plan, rank = load(batch, _FRAME), load(batch, _PLAN), load(batch, _RANK)
            data = stack_words(DATA_WORDS)
            store(data, STREAM_WORD, 0)
            store(data, DEVICE_WORD, 0)
            error = run_elements(host.call_once, frame, plan, load(batch, _BUFFERS), data, rank, first, last)
            if error != 0:
                if add_atomically(batch, _FAILURES, 1) == 0:
                    store(batch, _ERROR, error)
                else:
                    destroy(frame, error)
        return 0

    return bridge_batch_part


def make_execute() -> Any:
    """Native ``(frame, plan) -> error`` that runs a :class:`~bridge.ffi.plans.host.HostPlan`."""
    alone = host.make_execute(on_stream=False)
    monotonic = np.int64(time.CLOCK_MONOTONIC)

    @native
    def now():
        """Nanoseconds since some moment."""
        clock = stack_words(2)
        call2(load(context_word(FOR_EXECUTE), _CLOCK), monotonic, clock)
        return 1_000_000_000 * load(clock, 0) + load(clock, 1)

    @native
    def execute(frame, plan):
        if load(plan, host.SHARES) == 0:
            return alone(frame, plan)
        buffers, batch, threads = stack_words(MAX_BUFFERS), stack_words(_BATCH_WORDS), 0
        error = collect_buffers(frame, plan, buffers)
        if error != 0:
            return error
        rank = batch_rank_of(plan, buffers)
        elements = batch_elements(plan, buffers, rank)
        store(batch, _FRAME, frame)
        store(batch, _PLAN, plan)
        store(batch, _BUFFERS, buffers)
        store(batch, _RANK, rank)
        store(batch, _FAILURES, 0)
        store(batch, _ERROR, 0)
        functions, took = context_word(FOR_EXECUTE), load(plan, host.ELEMENT_NS)
        run, start = load(functions, _RUN_PART), now()
        if elements > 1 and (took == 0 or took * elements > _WORTH_NS):
            threads = call5(load(functions, _SHARE), frame, run, batch, elements, 0)
        if threads == 0:
            call4(run, batch, 0, 0, elements)
        # Other calls of this plan may write this word too, and whichever was last is as good.
        store(plan, host.ELEMENT_NS, max(1, (now() - start) * max(1, threads) // max(1, elements)))
        return load(batch, _ERROR)

    return execute
