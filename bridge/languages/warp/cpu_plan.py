"""Makes the native plan of a Warp launch on the CPU: native code calls Warp's C function on the buffers of a call."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numba
import numpy as np
import warp as wp

from bridge.compat.warp import library
from bridge.errors import LaunchError, PlatformError
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.words import call, call8, copy_words, create_error, load, load_int32, stack_words, store
from bridge.ffi.plans.host import HostPlan, Mutex
from bridge.kernel.arguments import Signature
from bridge.languages.warp.generated import Generated
from bridge.languages.warp.launches import WarpLaunch
from bridge.languages.warp.packing import PackedLaunch, pack

ARGUMENTS = 8  # words at the start of a block: the arguments of the C function, which takes the first of them
MAX_BLOCK_WORDS = 1 << 12
ITSELF = -1  # the number of the block among the buffers


def build_host(made: Generated, launch: WarpLaunch, signature: Signature) -> HostPlan:
    """Compiles a kernel for the CPU.

    Args:
        made: The kernel and its code.
        launch: The launch.
        signature: The types of the call.

    Raises:
        PlatformError: Warp has no CPU support.
        KernelCompileError: Warp cannot compile the kernel.
    """
    name = made.kernel.key
    packed = pack(made, one_lane(made, launch), "cpu", cpu_device(name))
    operations = [] if packed is None else [_operation(name, packed)]
    context = context_of(operations, range(len(signature.arrays)), take_error(made.threads))
    return HostPlan(
        function=replay().address,
        mutex=tile_mutex() if works_on_tiles(made) else None,
        context=ctypes.addressof(context),
        alive=(context, packed),
    )


def cpu_device(name: str) -> Any:
    """Warp's CPU device.

    Raises:
        PlatformError: Warp has no CPU support.
    """
    if not wp.is_cpu_available():
        raise PlatformError(f"{name} cannot run on the CPU: this Warp build does not include CPU support.")
    return wp.get_device("cpu")


def _operation(name: str, packed: PackedLaunch) -> Operation:
    """The launch as an operation: machine code gets the addresses of the bounds and of each struct of arguments."""
    starts = (WORD_BYTES * ARGUMENTS + at for at in (0, *packed.layout.structs))
    addresses = [(index, ITSELF, start) for index, start in enumerate(starts)]
    arrays = [(ARGUMENTS + word, buffer, 0) for word, buffer in packed.patches]
    return Operation(name, packed.entry, (*[0] * ARGUMENTS, *packed.content), (*addresses, *arrays))


def one_lane(made: Generated, launch: WarpLaunch) -> WarpLaunch:
    """The launch with one thread for each block, for a kernel on the CPU that works on tiles.

    A tiled launch has one more dimension: the threads of a block, which share the work on each tile. On the CPU a block
    is one thread, which does all of the work, unless ``warp.config.enable_cpu_blocks`` is set. A second one would
    repeat it.
    """
    dims = launch.dims
    tiled = made.threads == 1 and launch.block_dim is not None and dims[-1] == launch.block_dim and len(dims) > 1
    if not tiled or getattr(made.kernel.adj, "kernel_dim", None) == len(dims) or not works_on_tiles(made):
        return launch
    return msgspec.structs.replace(launch, dims=(*dims[:-1], 1))


def works_on_tiles(made: Generated) -> bool:
    """Whether the code works on tiles, which live in memory that all calls of the machine code share."""
    return re.search(r"\bwp::(tile|untile)\w*[(<]", made.code) is not None


@functools.cache
def tile_mutex() -> Mutex:
    """Held while code that works on tiles runs."""
    return Mutex.new()


def take_error(threads: int) -> int:
    """Address of Warp's C function that gives the error of a block of several threads on the CPU; 0 for one thread."""
    return c_function(library().wp_take_cpu_block_error) if threads > 1 else 0


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
