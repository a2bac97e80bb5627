"""Notes launches of Warp as operations that native code can repeat."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import threading
import types
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import warp as wp

from bridge.compat.warp import Threads, copy_of_data, home_of, kernels_of, library, struct_of
from bridge.errors import RecordingError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.kernel.arguments import ArrayType
from bridge.languages.warp.callable.device_memory import COPIES, FILLS, launch_instead
from bridge.languages.warp.inputs import UNKNOWN, Uses
from bridge.languages.warp.operations import ARGUMENTS, RecordedLaunch, RecordedOperation, block_of, laid_out
from bridge.languages.warp.parameters import addresses_in
from bridge.languages.warp.settings import block_dim_on

ADVICE = "; pass python_call=True to call it in Python each time."

_HARMLESS = re.compile(
    r"wp_(is|get)_.*|.*_(is|get|has|destroy)_.*|wp_cuda_context_.*|wp_alloc_tracker_.*|wp_free_.*|.*_bits.*"
)
"""The functions that only tell something, or free what exists already."""

CONSTANT = -1
"""Stands in the place of the number of a buffer for the memory of data that a function makes an array of."""

_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Arrays of functions while they were recorded. Nothing is in their memory."""

_constants: dict[bytes, int] = {}
"""Addresses of the data that functions make arrays of. They stay, because the programs that read them stay."""


@dataclass
class WarpRecorder:
    """Notes what one function does, in the thread that makes this object."""

    name: str
    thread: int = field(default_factory=threading.get_ident)
    refused: str | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    operations: list[RecordedOperation] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)
    homes: dict[str, Any] = field(default_factory=dict)
    alignments: list[int] = field(default_factory=list)
    bounds: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    arrays: dict[int, Any] = field(default_factory=dict)
    """The arrays of which Warp has asked where they are, as it does before it does anything with them."""

    def error(self, otherwise: str) -> RecordingError:
        """The error of the recording: what was refused, or another reason."""
        why = f"{self.refused}{ADVICE}" if self.refused else otherwise
        return RecordingError(f"{self.name} cannot be recorded: {why}")

    def refuse(self, what: str) -> None:
        """Notes what cannot be repeated. The function may catch the error; the recording is refused all the same."""
        self.refused = self.refused or what
        raise RecordingError(what)

    def reserve(self, array: ArrayType) -> int:
        """The address of memory for an array of the function. Nothing writes to it."""
        size = math.prod(array.extents) * array.item_bytes
        memory = np.empty(size + 64, np.uint8)
        self.memory.append(memory)
        self.ranges.append((memory.ctypes.data, size))
        self.alignments.append(array.item_bytes)  # XLA may pass a slice of a larger array
        return memory.ctypes.data

    def native(self, name: str, function: Any) -> Any:
        """What the thread gets for a function of Warp's library."""
        if name == "wp_alloc_host":
            return functools.partial(self._allocate, function)
        if name == "wp_free_host":  # later: no two temporaries share an address
            return self.freed.append
        if name in FILLS + COPIES:
            return functools.partial(self._move, name)
        if _HARMLESS.fullmatch(name):
            return function
        does = f"it calls Warp's {name}, which neither launches a kernel nor zeroes, fills or copies an array"
        return lambda *_: self.refuse(does)

    def _allocate(self, allocate: Any, size: int, *more: Any) -> Any:
        address = allocate(size, *more)
        self.ranges.append((address, size))
        self.alignments.append(WORD_BYTES)
        return address

    def _move(self, name: str, *arguments: Any) -> bool:
        """Launches kernels in the place of a function of Warp's library that zeroes, fills or copies."""
        for each in arguments[: 2 if name in COPIES else 1]:
            address = each.contents.data if hasattr(each, "contents") else each
            if self.place(address) is not None or address in _constants.values():
                continue
            if (array := self.owner(address)) is None:
                self.refuse(f"{name} got memory of no array that Warp knows. Pass the array as an argument")
            self.meet(array)
        homes = dict(self.homes)
        if not launch_instead(name, self.alignment, arguments):
            self.refuse("it fills or copies an array with indices, or with more than four strides")
        self.homes = homes  # the launches were on arrays of the CPU at these addresses
        return True

    def threads_of(self, _: Any, asked: int | None) -> Threads:
        """Stands in for Warp's choice of a block: the block of the CPU, with what was asked for."""
        if isinstance(asked, Threads):
            return asked
        asked = asked if asked and asked > 0 else None
        threads = Threads(block_dim_on("cpu", asked))
        threads.asked = asked
        return threads

    def pack(self, pack: Callable[..., Any], *arguments: Any) -> Any:
        """Packs an argument of a launch, and keeps the arrays in it."""
        _, _, _, value, *_ = arguments
        self.alive.append(value)
        for each in vars(value).values() if struct_of(value) else [value]:
            if isinstance(each, wp.array):
                self.meet(each)
        return pack(*arguments)

    def owner(self, address: int) -> Any:
        """The array that has this memory; None if Warp did not ask for one."""
        arrays = (each for each in self.arrays.values() if each.ptr)
        return next((each for each in arrays if 0 <= address - each.ptr <= each.capacity), None)

    def alignment(self, address: int) -> int:
        """The bytes that an address is a multiple of in each call."""
        if (place := self.place(address)) is None:
            return address  # memory from outside stays where it is
        index, offset = place
        return math.gcd(self.alignments[index], offset)

    def bounds_of(self, build: Callable[..., Any], dim: Sequence[int], *more: Any) -> Any:
        """Makes the bounds of a launch on the CPU, and keeps those on CUDA, where a block may have more threads."""
        bounds = build(dim, *more)
        on_cuda = tuple(block_dim_on("cuda", each.asked) if isinstance(each, Threads) else each for each in dim)
        self.bounds[id(bounds)] = bounds, build(on_cuda, *more)
        return bounds

    def load(self, module: Any, device: Any = None, block_dim: int | None = None, *_: Any) -> Any:
        """Stands in for the machine code of a module, which a launch that is noted does not need."""
        for kernel in kernels_of(module):
            for each in kernel.overloads.values() if kernel.is_generic else [kernel]:
                if not hasattr(each.adj, "kernel_dim"):
                    each.adj.get_references()  # finds the dimensions of a launch, which loading would have found
        code = {"forward": self, "backward": self, "block": self.threads_of(device, block_dim)}
        hooks = types.SimpleNamespace(**code, det_launch_meta=None, cluster_dim=1)
        return types.SimpleNamespace(get_kernel_hooks=lambda kernel: hooks)

    def launch(self, kernel: Any, hooks: Any, params: Sequence[Any], adjoint: bool) -> None:
        """Notes a launch."""
        bounds, *arguments = params
        if hooks.forward is not self:
            self.refuse(f"{kernel.key} is launched by a command that is older than this call. Use warp.launch")
        on_cuda = self.bounds[id(bounds)][1]
        content, layout = laid_out(bounds, arguments, len(kernel.adj.args))
        words, patches = block_of(content, layout)
        touched: list[tuple[int | None, int | Uses]] = []
        for index, (argument, at) in enumerate(zip(arguments, layout.offsets[1:], strict=True)):
            kind, memory = type(argument), bytes(argument)
            use = index if hasattr(kind, "grad") and index < len(kernel.adj.args) else UNKNOWN
            for byte in addresses_in(kind):
                if address := int.from_bytes(memory[byte : byte + WORD_BYTES], "little"):
                    word = ARGUMENTS + (at + byte) // WORD_BYTES
                    touched.append((self.point_at(words, patches, word, address), use))
            self.refuse_addresses(memory, set(addresses_in(kind)))
        launch = RecordedLaunch(kernel, adjoint, int(on_cuda.size), hooks.block.asked, bytes(on_cuda), layout)
        self.operations.append(
            RecordedOperation(kernel.key, 0, tuple(words), tuple(patches), touched=tuple(touched), launch=launch)
        )

    def place(self, address: int) -> tuple[int, int] | None:
        """The buffer that holds an address, or ends there, and the offset in it."""
        found = (
            (index, address - start) for index, (start, size) in enumerate(self.ranges) if 0 <= address - start <= size
        )
        return next(found, None)

    def point_at(self, words: list[int], patches: list[tuple[int, int, int]], word: int, address: int) -> int | None:
        """Writes an address, or patches the word with it; returns the buffer, or None for memory from outside."""
        if (place := self.place(address)) is None:
            words[word] = address
            return CONSTANT if address in _constants.values() else None
        words[word] = 0
        patches.append((word, *place))
        return place[0]

    def meet(self, array: Any) -> None:
        """Keeps an array from outside, whose memory the recording uses where it is."""
        if self.place(array.ptr or 0) is not None:
            _made[id(array)] = array
        elif _made.get(id(array)) is array:
            self.refuse("it uses an array that it made when it ran before. Make it outside of the function")
        elif array.ptr:
            self.alive.append(array)
            home = home_of(array)
            self.homes[str(home)] = home

    def branch(self, condition: Any, on_true: Any, on_false: Any, loop: bool, named: Mapping[str, Any]) -> None:
        """Notes ``warp.capture_if``, or ``warp.capture_while``: jumps around the operations of functions that run now.

        A jump is made if its condition is 0.
        """
        if any(not callable(each) for each in (on_true, on_false) if each is not None):
            self.refuse("it passes a graph to warp.capture_if or warp.capture_while. Pass a function")
        test = len(self.operations)
        self.jump(condition, test)
        if on_true is not None:
            on_true(**named)
        self.jump(None, test)
        end = len(self.operations)
        if on_false is not None:
            on_false(**named)
        after = test if loop else len(self.operations)
        for at, target in ((test, end), (end - 1, after)):
            self.operations[at] = replace(self.operations[at], target=target)

    def jump(self, condition: Any, target: int) -> None:
        """Notes a jump, to be made always if there is no condition."""
        words, patches = [0] * ARGUMENTS, list[tuple[int, int, int]]()
        touched: list[tuple[int | None, Uses]] = []
        if condition is not None:
            self.meet(condition)
            touched.append((self.point_at(words, patches, 0, condition.ptr), frozenset({"load"})))
        self.operations.append(RecordedOperation("jump", 0, tuple(words), tuple(patches), target, tuple(touched)))

    def make_constant(
        self, initialise: Callable[..., None], array: Any, data: Any, dtype: Any, shape: Any, *_: Any
    ) -> None:
        """Makes ``warp.array(data)``: a temporary into which each call copies what the data are now."""
        content, core = copy_of_data(initialise, array, data, dtype, shape), library()
        if content not in _constants:
            # All GPUs reach pinned memory, at the same address.
            allocate = core.library.wp_alloc_pinned if wp.is_cuda_available() else core.library.wp_alloc_host
            if not (address := allocate(max(len(content), 1), None)):
                raise MemoryError(f"Warp did not allocate {len(content)} bytes of the host's memory for a wp.array")
            _constants[content] = address
            ctypes.memmove(address, content, len(content))
        if content:
            core.wp_memcpy_h2h(array.ptr, _constants[content], len(content))

    def refuse_addresses(self, content: bytes, known: Collection[int]) -> None:
        """Refuses memory that holds the address of an array, besides at these bytes: it is another one in a call."""
        for byte in range(0, len(content) - WORD_BYTES + 1, WORD_BYTES):
            address = int.from_bytes(content[byte : byte + WORD_BYTES], "little")
            if byte not in known and address and self.place(address) is not None:
                self.refuse(
                    "an argument holds the address of an array as a number. Pass the array itself to the kernel"
                )
