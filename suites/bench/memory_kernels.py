"""Compiles loops that move memory as fast as a core can, whole cache lines at a time.

A streaming store writes memory without fetching it first, which pays where the data fits in no cache. ``memcpy`` and
``memset`` of the C library take part too, because kernels call them.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

ARRAYS = {"copy": (1, 1), "read": (1, 0), "triad": (2, 1), "write": (0, 1)}
"""The patterns, and how many arrays each reads and writes."""

METHODS = {
    "copy": ("stores", "streaming", "library"),
    "read": ("loads",),
    "triad": ("stores", "streaming"),
    "write": ("stores", "streaming", "library"),
}
"""The ways to run each pattern. ``library`` is the C library."""

GRAIN = 256
"""Arrays must have a multiple of so many bytes, and begin at a multiple of 64."""

_LINE = 64
_WORD = ir.IntType(32)
_INTEGER = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, _LINE // 4)
_NUMBER = numba.types.int64
_SPINS = 2000
_yield = ctypes.CDLL(None).sched_yield
_yield.argtypes, _yield.restype = [], ctypes.c_int


@functools.cache
def kernel(pattern: str, method: str) -> Any:
    """Returns a compiled function that goes through arrays a number of times; it runs without the interpreter's lock.

    It takes the addresses of the target and of two sources (those that the pattern does not have are ignored), the size
    of each array in bytes, the number of passes, the address of an integer that is zero, and the number of threads that
    run the function at once. After each pass a thread waits until all have ended it: so a pass is as long as a call of
    a kernel whose threads are awake. The integer counts them.

    Args:
        pattern: One of :data:`ARRAYS`.
        method: One of the pattern's :data:`METHODS`.
    """
    sweep = _library_sweep(pattern) if method == "library" else _sweep(pattern, method == "streaming")

    @numba.njit(nogil=True)
    def passes(target, first, second, size, count, counter, threads):
        total = 0
        for each in range(count):
            total += sweep(target, first, second, size)
            _end_pass()
            if threads > 1:
                _meet(counter, (each + 1) * threads)
        return total

    passes.compile((_NUMBER,) * 7)
    return passes


def _library_sweep(pattern: str) -> Any:
    library = ctypes.CDLL(None)
    memcpy, memset = library.memcpy, library.memset
    for function, middle in ((memcpy, ctypes.c_size_t), (memset, ctypes.c_int)):
        function.argtypes, function.restype = [ctypes.c_size_t, middle, ctypes.c_size_t], ctypes.c_size_t
    if pattern == "copy":
        return numba.njit(lambda target, first, second, size: _zero(memcpy(target, first, size)))
    return numba.njit(lambda target, first, second, size: _zero(memset(target, 1, size)))


@numba.njit
def _zero(address):
    return 0


def _sweep(pattern: str, streaming: bool) -> Any:
    """One pass over the arrays, four cache lines in each turn; returns a sum of what it read, so that it is read."""
    reads, writes = ARRAYS[pattern]

    @intrinsic
    def sweep(typingctx, target, first, second, size):
        def code(context, builder, signature, args):
            addresses, size = args[:3], args[3]
            before, loop, after = builder.block, *(builder.append_basic_block(name) for name in ("move", "moved"))
            builder.branch(loop)
            builder.position_at_end(loop)
            offset = builder.phi(_INTEGER)
            offset.add_incoming(_INTEGER(0), before)
            sums = [builder.phi(_VECTOR) for _ in range(GRAIN // _LINE)]
            for index, total in enumerate(sums):
                total.add_incoming(ir.Constant(_VECTOR, None), before)
                here = builder.add(offset, _INTEGER(index * _LINE))
                pointers = [builder.inttoptr(builder.add(each, here), _VECTOR.as_pointer()) for each in addresses]
                loaded = [builder.load(pointer, align=_LINE) for pointer in pointers[1 : 1 + reads]]
                value = loaded[0] if loaded else ir.Constant(_VECTOR, [1] * _VECTOR.count)
                for other in loaded[1:]:
                    value = builder.add(value, other)
                if writes:
                    store = builder.store(value, pointers[0], align=_LINE)
                    if streaming:
                        store.set_metadata("nontemporal", builder.module.add_metadata([_WORD(1)]))
                total.add_incoming(total if writes else builder.add(total, value), loop)
            following = builder.add(offset, _INTEGER(GRAIN))
            offset.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
            builder.position_at_end(after)
            total = sums[0] if writes else loop_total(builder, sums, loop)
            return _sum_of_lanes(builder, total)

        def loop_total(builder, sums, loop):
            ends = [each.incomings[-1][0] for each in sums]
            total = ends[0]
            for each in ends[1:]:
                total = builder.add(total, each)
            return total

        return _NUMBER(_NUMBER, _NUMBER, _NUMBER, _NUMBER), code

    return sweep


def _sum_of_lanes(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    lanes = [builder.extract_element(vector, _WORD(lane)) for lane in range(_VECTOR.count)]
    total = lanes[0]
    for lane in lanes[1:]:
        total = builder.add(total, lane)
    return builder.zext(total, _INTEGER)


@intrinsic
def _end_pass(typingctx):
    """Completes streaming stores, and keeps LLVM from merging a pass with the next."""

    def code(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return numba.types.void(), code


@numba.njit
def _meet(counter, goal):
    """Adds one to a counter, and waits until it has reached a number."""
    _arrive(counter)
    spins = 0
    while _arrived(counter) < goal:
        spins += 1
        if spins > _SPINS:  # another thread waits for a core
            _yield()


@intrinsic
def _arrive(typingctx, counter):
    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _INTEGER.as_pointer())
        return builder.atomic_rmw("add", pointer, _INTEGER(1), "seq_cst")

    return _NUMBER(_NUMBER), code


@intrinsic
def _arrived(typingctx, counter):
    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _INTEGER.as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return _NUMBER(_NUMBER), code
