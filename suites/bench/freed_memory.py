"""Makes the C library keep memory that was freed, for times of calls that find their memory ready.

A result lies in memory that a process asks the C library for. glibc returns large blocks to the operating system when
they are freed, so the next call takes a page fault for every page that it writes. By default a user's program pays
this, and so do timed calls. ``alone_warm_ns`` in a record shows what a program pays that keeps its memory.
"""

from __future__ import annotations

import ctypes
import resource

MOST_KEPT_BYTES = 60 << 20
"""The largest output that is kept where :func:`keep_freed_pages` comes after XLA has started its threads.

These threads have arenas of their own, of at most 64 MiB. glibc takes larger blocks from the operating system, and
returns them, whatever the settings. Where it comes before JAX is first used, there is no limit.
"""

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # of mallopt
_ARENA_BYTES = 64 << 20
_PROBE_BYTES = 40 << 20
"""More than 32 MiB, the largest blocks that glibc learns to keep by itself."""


def keep_freed_pages() -> bool:
    """Makes glibc keep freed memory from now on, for the rest of the life of this process.

    Blocks above :data:`MOST_KEPT_BYTES` are kept only if this is called before JAX is first used. A loop of calls has
    its memory after a while: at first a call may get another block than the call before, if small ones are in the way.

    Returns whether it took effect: a large block that is allocated, freed and allocated again has its pages at once. It
    does so with glibc alone, and not where another allocator was loaded in its place.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Without so large a pad, glibc deletes the memory of an arena of a thread as soon as all of it is free.
    pad = _ARENA_BYTES + (1 << 20)
    settings = ((_MMAP_MAX, 0), (_TOP_PAD, pad), (_TRIM_THRESHOLD, 2**31 - 1), (_ARENA_MAX, 1))
    taken = [mallopt(name, value) == 1 for name, value in settings]
    return all(taken) and keeps_pages()


def keeps_pages() -> bool:
    """Tells whether this process keeps the pages of a freed block of 40 MiB, by counting its page faults."""
    first, second = _faults_of_a_block(), _faults_of_a_block()
    return second <= first // 8


def _faults_of_a_block() -> int:
    """Returns the page faults of this thread while it allocates a large block, writes to it and frees it."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    before = _faults()
    block = library.malloc(_PROBE_BYTES)
    if not block:
        raise MemoryError(f"malloc gave no {_PROBE_BYTES} bytes to find out whether freed memory is kept; free memory.")
    ctypes.memset(block, 1, _PROBE_BYTES)
    library.free(block)
    return _faults() - before


def _faults() -> int:
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(who).ru_minflt
