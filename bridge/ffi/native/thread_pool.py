"""Asks for XLA's threads in native code: how many there are, and that one of them runs a task.

Only parallel loops of Numba kernels need this, so only they import it. Importing it raises
:class:`~bridge.errors.AbiError` if the header of the installed jaxlib lacks what it needs.
"""

from __future__ import annotations

from bridge.ffi.native.abi import FRAME, constants, header
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import call, load, stack_words, store

_API = constants(
    "PoolApi",
    SCHEDULE=header.word("XLA_FFI_Api", "XLA_FFI_ThreadPool_Schedule"),
    THREADS=header.word("XLA_FFI_Api", "XLA_FFI_ThreadPool_NumThreads"),
    ERROR_DESTROY=header.word("XLA_FFI_Api", "XLA_FFI_Error_Destroy"),
)

_SCHEDULE = constants(
    "Schedule",
    SIZE=header.word("XLA_FFI_ThreadPool_Schedule_Args", "struct_size"),
    EXTENSION=header.word("XLA_FFI_ThreadPool_Schedule_Args", "extension_start"),
    CONTEXT=header.word("XLA_FFI_ThreadPool_Schedule_Args", "ctx"),
    TASK=header.word("XLA_FFI_ThreadPool_Schedule_Args", "task"),
    DATA=header.word("XLA_FFI_ThreadPool_Schedule_Args", "data"),
    BYTES=header.end("XLA_FFI_ThreadPool_Schedule_Args", "data"),
)

_THREADS = constants(
    "Threads",
    SIZE=header.word("XLA_FFI_ThreadPool_NumThreads_Args", "struct_size"),
    EXTENSION=header.word("XLA_FFI_ThreadPool_NumThreads_Args", "extension_start"),
    CONTEXT=header.word("XLA_FFI_ThreadPool_NumThreads_Args", "ctx"),
    COUNT=header.word("XLA_FFI_ThreadPool_NumThreads_Args", "num_threads"),
    BYTES=header.end("XLA_FFI_ThreadPool_NumThreads_Args", "num_threads"),
)

_DESTROY = constants(
    "Destroy",
    SIZE=header.word("XLA_FFI_Error_Destroy_Args", "struct_size"),
    EXTENSION=header.word("XLA_FFI_Error_Destroy_Args", "extension_start"),
    ERROR=header.word("XLA_FFI_Error_Destroy_Args", "error"),
    BYTES=header.end("XLA_FFI_Error_Destroy_Args", "error"),
)


@native
def pool_threads(frame):  # type: ignore[no-untyped-def]
    """How many threads XLA has; 0 if the program has none, as on one processor."""
    count, args = stack_words(1), stack_words(8)
    store(count, 0, 0)
    store(args, _THREADS.SIZE, _THREADS.BYTES)
    store(args, _THREADS.EXTENSION, 0)
    store(args, _THREADS.CONTEXT, load(frame, FRAME.CONTEXT))
    store(args, _THREADS.COUNT, count)
    if not _succeeds(frame, call(load(load(frame, FRAME.API), _API.THREADS), args)):
        return 0
    return load(count, 0)


@native
def schedule(frame, task, data):  # type: ignore[no-untyped-def]
    """Asks XLA for a thread that calls ``task(data)``; returns whether it will."""
    args = stack_words(8)
    store(args, _SCHEDULE.SIZE, _SCHEDULE.BYTES)
    store(args, _SCHEDULE.EXTENSION, 0)
    store(args, _SCHEDULE.CONTEXT, load(frame, FRAME.CONTEXT))
    store(args, _SCHEDULE.TASK, task)
    store(args, _SCHEDULE.DATA, data)
    return _succeeds(frame, call(load(load(frame, FRAME.API), _API.SCHEDULE), args))


@native
def _succeeds(frame, error):  # type: ignore[no-untyped-def]
    """Whether XLA has returned no error; destroys it."""
    if error == 0:
        return True
    args = stack_words(8)
    store(args, _DESTROY.SIZE, _DESTROY.BYTES)
    store(args, _DESTROY.EXTENSION, 0)
    store(args, _DESTROY.ERROR, error)
    call(load(load(frame, FRAME.API), _API.ERROR_DESTROY), args)
    return False
