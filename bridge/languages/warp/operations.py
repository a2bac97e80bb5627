"""Makes plans on the CPU whose native code calls C functions on the buffers of a call. Imports no Warp."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from bridge.errors import LaunchError
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.words import call, call8, copy_words, create_error, load, load_int32, stack_words, store
from bridge.ffi.plans.host import HostPlan, Mutex

ARGUMENTS = 8  # words at the start of a block: the arguments of the C function, which takes the first of them
MAX_BLOCK_WORDS = 1 << 12
ITSELF = -1  # the number of the block among the buffers


_TILE_MUTEX = Mutex.new()
"""Held while code that works on tiles runs. Made at import: two threads that make it when they need it may make two."""


@dataclass(frozen=True)
class Operation:
    """One launch, or call of a C function.

    Attributes:
        name: The kernel or function, for errors.
        entry: Address of the C function; 0 for a kernel that is not loaded yet.
        block: The memory that the call needs, as words: the arguments, and what they refer to.
        patches: Word of the block, number of a buffer, and offset in it in bytes, of each address to fill in.
        target: Of a jump, the position of the operation that is next if the int32 at the address in the first word of
            the block is 0, or if there is no address.

    Raises:
        LaunchError: The block is larger than the memory that a call has for it.
    """

    name: str
    entry: int = field(repr=False)
    block: tuple[int, ...]
    patches: tuple[tuple[int, int, int], ...]
    target: int | None = None

    def __post_init__(self) -> None:
        if len(self.block) > MAX_BLOCK_WORDS:
            raise LaunchError(
                f"the arguments of {self.name} take {WORD_BYTES * len(self.block)} bytes, expected at most "
                f"{WORD_BYTES * MAX_BLOCK_WORDS}. Pass fewer arrays."
            )


def plan_of(operations: Sequence[Operation], buffers: Sequence[int], take: int, on_tiles: bool, alive: Any) -> HostPlan:
    """The plan that makes these operations; the arguments are those of :func:`context_of`.

    ``on_tiles`` says that the code works on tiles, which live in memory that all calls of it share.
    """
    context = context_of(operations, buffers, take)
    mutex, function = _TILE_MUTEX if on_tiles else None, replay()
    shares = mutex is None and take == 0
    return HostPlan(function.address, mutex, ctypes.addressof(context), shares, (context, function, alive))


def context_of(operations: Sequence[Operation], buffers: Sequence[int], take: int) -> ctypes.Array[ctypes.c_int64]:
    """The operations as words, for :func:`replay`, with the number that each buffer has in a call.

    ``take`` is the address of a C function that gives an error after the last operation, or 0.
    """
    sizes = (3 + len(op.block) + 3 * len(op.patches) for op in operations)
    starts = list(itertools.accumulate(sizes, initial=2))
    words = [take, starts[-1]]
    for op in operations:
        words += [op.entry, len(op.block), len(op.patches)]
        words += op.block if op.target is None else [op.block[0], starts[op.target], *op.block[2:]]
        for word, buffer, offset in op.patches:
            words += [word, ITSELF if buffer == ITSELF else buffers[buffer], offset]
    return (ctypes.c_int64 * len(words))(*words)


@functools.cache
def replay() -> Any:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan` that makes the operations of its context."""

    @numba.cfunc(numba.types.int64(*[numba.types.int64] * 5), error_model="numpy")
    def function(frame, buffers, data, batch_rank, context):
        block, at = stack_words(MAX_BLOCK_WORDS), 2
        while at < load(context, 1):
            entry, size, patches = load(context, at), load(context, at + 1), load(context, at + 2)
            copy_words(block, context + WORD_BYTES * (at + 3), size)
            at += 3 + size
            for _ in range(patches):
                buffer = load(context, at + 1)
                start = block if buffer == ITSELF else load(data, buffer)
                store(block, load(context, at), start + load(context, at + 2))
                at += 3
            if entry == 0:  # a jump
                if load(block, 0) == 0 or load_int32(load(block, 0), 0) == 0:
                    at = load(block, 1)
                continue
            call8(
                entry, load(block, 0), load(block, 1), load(block, 2), load(block, 3), load(block, 4), load(block, 5),
                load(block, 6), load(block, 7),
            )  # fmt: skip
        take = load(context, 0)
        text = call(take, 0) if take != 0 else 0
        return create_error(frame, np.int64(ERROR.INTERNAL), text) if text != 0 else 0

    return function
