"""Describes launches on the CPU as words, which native code repeats on the buffers of a call. Imports no Warp."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numba
import numpy as np

from bridge.errors import LaunchError
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.addresses import LoadedObject
from bridge.ffi.native.object_code import require_processor, require_symbols, taken_by
from bridge.ffi.native.words import call, call3, copy_words, create_error, load, load_int32, stack_words, store
from bridge.ffi.plans.host import HostPlan, Mutex


class WarpArgument(msgspec.Struct, frozen=True):
    """One argument of a launch: an array in a buffer of the call, or a value.

    Attributes:
        dtype: Name of the scalar dtype.
        inner: Shape of a vector or matrix, ``()`` for a scalar.
        shape: Shape of the array in elements; None for a value.
        buffer: Index of the array's buffer: inputs of the call, then outputs.
        adjoint: Index of the buffer with its adjoint, in a backward launch; None if it has none.
        value: The value's memory.
    """

    dtype: str
    inner: tuple[int, ...]
    shape: tuple[int, ...] | None = None
    buffer: int = 0
    adjoint: int | None = None
    value: bytes = b""


class WarpLaunch(msgspec.Struct, frozen=True):
    """One launch without the addresses of its arrays: the options of a Warp kernel.

    Attributes:
        dims: Threads along each dimension.
        block_dim: Threads of a block, None for Warp's default on the device.
        backward: Launch the adjoint.
        arguments: The arguments, in the order of the kernel's parameters.
    """

    dims: tuple[int, ...]
    block_dim: int | None
    backward: bool
    arguments: tuple[WarpArgument, ...]


class Layout(NamedTuple):
    """The memory that machine code gets: the bounds, a C struct of the arguments, and for an adjoint a second one.

    Attributes:
        structs: Where each struct starts, in bytes.
        offsets: Where the bounds and each argument start, in bytes.
        sizes: Bytes of the bounds and of each argument.
    """

    structs: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def laid_out(bounds: Any, arguments: Sequence[Any], count: int) -> tuple[bytes, Layout]:
    """The memory that machine code gets, whole words of it, with a struct for each ``count`` arguments."""
    content, structs, offsets = bytes(bounds), [], [0]
    for start in range(0, len(arguments), count):
        fields = [(f"argument{index}", type(each)) for index, each in enumerate(arguments[start : start + count])]
        struct: Any = type("Arguments", (ctypes.Structure,), {"_fields_": fields})
        content += bytes(-len(content) % 16)
        structs.append(len(content))
        offsets += [len(content) + getattr(struct, name).offset for name, _ in fields]
        content += bytes(struct(*arguments[start : start + count]))
    layout = Layout(tuple(structs), tuple(offsets), tuple(len(bytes(each)) for each in (bounds, *arguments)))
    return content + bytes(-len(content) % WORD_BYTES), layout


def words_of(content: bytes) -> tuple[int, ...]:
    """The words in memory."""
    return tuple(np.frombuffer(content, np.int64).tolist())


ARGUMENTS = 4  # words at the start of a block: the arguments of the C function, which takes the first of them
MAX_BLOCK_WORDS = 1 << 12
ITSELF = -1  # the number of the block among the buffers


@dataclass(frozen=True)
class Operation:
    """One launch, or a jump.

    Attributes:
        name: The kernel, for errors.
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


@dataclass(frozen=True)
class RecordedLaunch:
    """What is known of a launch of a recorded function besides the memory of its arguments.

    Attributes:
        kernel: Warp's kernel.
        backward: Launch its adjoint.
        threads: Threads in all, on CUDA.
        block_dim: Threads of a block that are asked for; None for Warp's default.
        bounds: The launch bounds on CUDA. The bounds on the CPU, of the same size, begin the memory of the arguments.
        layout: What is where in this memory.
    """

    kernel: Any = field(repr=False)
    backward: bool
    threads: int
    block_dim: int | None
    bounds: bytes
    layout: Layout


@dataclass(frozen=True)
class RecordedOperation(Operation):
    """An operation of a recorded function.

    Attributes:
        touched: The buffer of each argument that leads to one, with the position of the kernel's parameter or the use.
            None stands for memory that is no buffer.
        launch: What else is known, if it is a launch.
    """

    touched: tuple[tuple[int | None, int | frozenset[str]], ...] = ()
    launch: RecordedLaunch | None = None


def block_of(
    content: bytes, layout: Layout, patches: Sequence[tuple[int, int, int]] = ()
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The block of a launch with this memory, and its patches: also with the addresses of the bounds and structs."""
    starts = (WORD_BYTES * ARGUMENTS + at for at in (0, *layout.structs))
    addresses = [(index, ITSELF, start) for index, start in enumerate(starts)]
    inside = [(ARGUMENTS + word, buffer, offset) for word, buffer, offset in patches]
    return [*[0] * ARGUMENTS, *words_of(content)], addresses + inside


_TILE_MUTEX = Mutex.new()
"""Held while code that works on tiles runs. Made at import: two threads that make it when they need it may make two."""


def host_plan(
    operations: Sequence[Operation], buffers: Sequence[int], take: int, on_tiles: bool, alive: Any
) -> HostPlan:
    """The plan that makes these operations.

    Args:
        operations: The operations.
        buffers: The number that each buffer of the operations has in a call.
        take: The address of a C function that gives an error after the last operation, or 0.
        on_tiles: The code works on tiles, which live in memory that all calls of it share.
        alive: What the operations refer to.
    """
    sizes = (3 + len(op.block) + 3 * len(op.patches) for op in operations)
    starts = list(itertools.accumulate(sizes, initial=2))
    words = [take, starts[-1]]
    for op in operations:
        words += [op.entry, len(op.block), len(op.patches)]
        words += op.block if op.target is None else [op.block[0], starts[op.target], *op.block[2:]]
        for word, buffer, offset in op.patches:
            words += [word, ITSELF if buffer == ITSELF else buffers[buffer], offset]
    context = (ctypes.c_int64 * len(words))(*words)
    mutex, function = _TILE_MUTEX if on_tiles else None, replay()
    shares = mutex is None and take == 0
    return HostPlan(function.address, mutex, ctypes.addressof(context), shares, (context, function, alive))


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
            call3(entry, load(block, 0), load(block, 1), load(block, 2))
        take = load(context, 0)
        text = call(take, 0) if take != 0 else 0
        return create_error(frame, np.int64(ERROR.INTERNAL), text) if text != 0 else 0

    return function


class WarpObject(msgspec.Struct, frozen=True):
    """Object code in an exported program, and the launch that it is for.

    Attributes:
        content: An object file; empty if no thread runs.
        symbol: The kernel's name in it.
        triple: The system and processor that it is for.
        features: The features that the processor needs.
        block: As of an :class:`Operation`.
        patches: The same.
        buffers: How many arrays the call has.
        on_tiles: Whether the code works on tiles.
    """

    content: bytes
    symbol: str
    triple: str
    features: tuple[str, ...]
    block: tuple[int, ...]
    patches: tuple[tuple[int, int, int], ...]
    buffers: int
    on_tiles: bool


def plan_of(name: str, content: bytes) -> HostPlan:
    """The plan that runs object code of another process.

    Raises:
        BridgeError: It is for another processor, or calls what this process does not have.
    """
    code = msgspec.msgpack.decode(content, type=WarpObject)
    require_processor(name, code.triple, code.features)
    made, loaded = [], None
    if code.content:
        require_symbols(name, taken_by(code.content))
        loaded = LoadedObject(code.content, code.symbol)
        made = [Operation(name, loaded.address, code.block, code.patches)]
    return host_plan(made, range(code.buffers), 0, code.on_tiles, loaded)
