"""Asks for XLA's threads in native code: how many there are, and that one of them runs a task.

Only :mod:`bridge.ffi.native.shared_work` and what it runs need this, so nothing else imports it. Importing it raises
:class:`~bridge.errors.AbiError` if the header of the installed jaxlib lacks what it needs.
"""

from __future__ import annotations

from typing import Any

from bridge.ffi.native.abi import FRAME, constants, header
from bridge.ffi.native.words import call, load, native, stack_words, store

_API = constants(
    "PoolApi",
    SCHEDULE=header.word("XLA_FFI_Api", "XLA_FFI_ThreadPool_Schedule"),
    THREADS=header.word("XLA_FFI_Api", "XLA_FFI_ThreadPool_NumThreads"),
    ERROR_DESTROY=header.word("XLA_FFI_Api", "XLA_FFI_Error_Destroy"),
)


def _words(structure: str, last: str, *others: str) -> Any:
    """Words of the arguments of one of these functions, by field, and their size."""
    fields = {"struct_size", "extension_start", last, *others}
    words = {field.upper(): header.word(structure, field) for field in sorted(fields)}
    return constants(structure, **words, BYTES=header.end(structure, last))


_SCHEDULE = _words("XLA_FFI_ThreadPool_Schedule_Args", "data", "ctx", "task")
_THREADS = _words("XLA_FFI_ThreadPool_NumThreads_Args", "num_threads", "ctx")
_DESTROY = _words("XLA_FFI_Error_Destroy_Args", "error")


@native
def pool_threads(frame):  # type: ignore[no-untyped-def]
    """How many threads XLA has; 0 if the program has none, as on one processor."""
    count, args = stack_words(1), stack_words(8)
    store(count, 0, 0)
    store(args, _THREADS.STRUCT_SIZE, _THREADS.BYTES)
    store(args, _THREADS.EXTENSION_START, 0)
    store(args, _THREADS.CTX, load(frame, FRAME.CONTEXT))
    store(args, _THREADS.NUM_THREADS, count)
    if not _succeeds(frame, call(load(load(frame, FRAME.API), _API.THREADS), args)):
        return 0
    return load(count, 0)


@native
def schedule(frame, task, data):  # type: ignore[no-untyped-def]
    """Asks XLA for a thread that calls ``task(data)``; returns whether it will."""
    args = stack_words(8)
    store(args, _SCHEDULE.STRUCT_SIZE, _SCHEDULE.BYTES)
    store(args, _SCHEDULE.EXTENSION_START, 0)
    store(args, _SCHEDULE.CTX, load(frame, FRAME.CONTEXT))
    store(args, _SCHEDULE.TASK, task)
    store(args, _SCHEDULE.DATA, data)
    return _succeeds(frame, call(load(load(frame, FRAME.API), _API.SCHEDULE), args))


@native
def _succeeds(frame, error):  # type: ignore[no-untyped-def]
    """Whether XLA has returned no error; destroys it."""
    if error == 0:
        return True
    destroy(frame, error)
    return False


@native
def destroy(frame, error):  # type: ignore[no-untyped-def]
    """Frees an error that nobody will see."""
    args = stack_words(8)
    store(args, _DESTROY.STRUCT_SIZE, _DESTROY.BYTES)
    store(args, _DESTROY.EXTENSION_START, 0)
    store(args, _DESTROY.ERROR, error)
    call(load(load(frame, FRAME.API), _API.ERROR_DESTROY), args)
