"""Notes launches of Warp, and calls of its library, as operations that native code can repeat."""

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
from bridge.ffi.native.addresses import c_function
from bridge.kernel.arguments import ArrayType
from bridge.languages.warp.callable.device_memory import launch_instead
from bridge.languages.warp.dtypes import addresses_in
from bridge.languages.warp.inputs import UNKNOWN, Uses
from bridge.languages.warp.operations import ARGUMENTS, ITSELF, Operation
from bridge.languages.warp.packing import Layout, laid_out
from bridge.languages.warp.settings import block_dim_on

ADVICE = "; pass python_call=True to call it in Python each time."

_NOTED = {
    "wp_memset_host": "w",
    "wp_memtile_host": "wv",
    "wp_memcpy_h2h": "wr",
    "wp_array_fill_host": "W.v",
    "wp_array_copy_host": "WR",
    **{f"wp_array_scan_{kind}_host": "rw" for kind in ("int", "int64", "float", "double")},
    **{f"wp_array_sum_{kind}_host": "rw" for kind in ("float", "double")},
    **{f"wp_array_inner_{kind}_host": "rrw" for kind in ("float", "double")},
    **{f"wp_radix_sort_pairs_{kind}_host": "ww" for kind in ("int", "uint", "int64", "uint64", "float", "double")},
}
"""Functions of Warp's library that are repeated, with what they do with the memory of their arguments: read or write
it, or, in capitals, of the array that they describe; ``v`` is a value in memory of its own. The others are numbers."""

_HARMLESS = re.compile(
    r"wp_(is|get)_.*|.*_(is|get|has|destroy)_.*|wp_cuda_context_.*|wp_alloc_tracker_.*|wp_free_.*|.*_bits.*"
)
"""The functions that only tell something, or free what exists already."""

_USES = {"r": frozenset({"load"}), "w": frozenset({"store"})}


CONSTANT = -1
"""Stands in the place of the number of a buffer for the memory of data that a function makes an array of."""

_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Arrays of functions while they were recorded. Nothing is in their memory."""

_constants: dict[bytes, int] = {}
"""Addresses of the data that functions make arrays of. They stay, because the programs that read them stay."""


@dataclass(frozen=True)
class RecordedLaunch:
    """What is known of a launch besides the memory of its arguments.

    Attributes:
        kernel: The kernel.
        backward: Launch its adjoint.
        threads: Threads in all, on CUDA.
        block_dim: Threads of a block that are asked for; None for Warp's default.
        bounds: The launch bounds on CUDA. The bounds on the CPU, of the same size, begin the memory of the arguments.
        layout: What is where in this memory.
    """

    kernel: wp.Kernel = field(repr=False)
    backward: bool
    threads: int
    block_dim: int | None
    bounds: bytes
    layout: Layout


@dataclass(frozen=True)
class Recorded(Operation):
    """One launch, or call of a C function, that was noted.

    Attributes:
        touched: The buffer of each argument that leads to one, with the position of the kernel's parameter or the use.
            None stands for memory that is no buffer.
        launch: What else is known, if it is a launch.
        on_cuda: The launches that do on CUDA what a function does on the CPU; None if there are none.
    """

    touched: tuple[tuple[int | None, int | Uses], ...] = ()
    launch: RecordedLaunch | None = None
    on_cuda: tuple[Recorded, ...] | None = None


@dataclass
class WarpRecorder:
    """Notes what one function does, in the thread that makes this object."""

    name: str
    thread: int = field(default_factory=threading.get_ident)
    refused: str | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    operations: list[Recorded] = field(default_factory=list)
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
        if name in _NOTED:
            return functools.partial(self._note, name, function)
        return function if _HARMLESS.fullmatch(name) else functools.partial(self._refuse_native, name)

    def _allocate(self, allocate: Any, size: int, *more: Any) -> Any:
        address = allocate(size, *more)
        self.ranges.append((address, size))
        self.alignments.append(WORD_BYTES)
        return address

    def _refuse_native(self, name: str, *_: Any) -> None:
        self.refuse(
            f"it calls Warp's {name}, which neither launches a kernel nor zeroes, fills, copies, scans, sums or sorts"
        )

    def _note(self, name: str, function: Any, *arguments: Any) -> bool:
        block = _Block()
        touched: list[tuple[int | None, int | Uses]] = []
        for index, argument in enumerate(arguments):
            kind = _NOTED[name][index : index + 1] or "."
            if kind == ".":
                block.words[index] = int(argument)
            elif kind in "rw":
                block.words[index] = int(argument)
                touched.append((self.point_at(block, index, int(argument), name), _USES[kind]))
            elif kind == "v":
                value = bytes(getattr(argument, "contents", argument))
                self.refuse_addresses("a value", value)
                block.point(index, block.put(value))
            else:
                descriptor = argument.contents
                at = block.put(bytes(descriptor))
                block.point(index, at)
                found = self.fill_in(block, at, type(descriptor), bytes(descriptor), name)
                touched += [(each, _USES[kind.lower()]) for each in found]
        done, self.operations, homes = self.operations, [], dict(self.homes)
        launches = tuple(self.operations) if launch_instead(name, self.alignment, arguments) else None
        self.operations, self.homes = done, homes
        entry = c_function(function)
        self.operations.append(Recorded(name, entry, *block.finished(), touched=tuple(touched), on_cuda=launches))
        return True

    def threads_of(self, _: Any, asked: int | None) -> Threads:
        """Stands in for Warp's choice of a block: the block of the CPU, with what was asked for."""
        if isinstance(asked, Threads):
            return asked
        asked = asked if asked and asked > 0 else None
        return Threads.of(block_dim_on("cpu", asked), asked)

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
        index, offset = self.place(address) or (0, 1)
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
        block, count = _Block(), len(kernel.adj.args)
        content, layout = laid_out(bounds, arguments, count)
        start = block.put(content)
        for index, at in enumerate((0, *layout.structs)):
            block.point(index, start + at)
        touched: list[tuple[int | None, int | Uses]] = []
        for index, (argument, at) in enumerate(zip(arguments, layout.offsets[1:], strict=True)):
            kind = type(argument)
            found = self.fill_in(block, start + at, kind, bytes(argument))
            is_plain = hasattr(kind, "grad") and index < count
            touched += [(each, index if is_plain else UNKNOWN) for each in found]
        launch = RecordedLaunch(kernel, adjoint, int(on_cuda.size), hooks.block.asked, bytes(on_cuda), layout)
        self.operations.append(Recorded(kernel.key, 0, *block.finished(), touched=tuple(touched), launch=launch))

    def place(self, address: int) -> tuple[int, int] | None:
        """The buffer that holds an address, or ends there, and the offset in it."""
        found = (
            (index, address - start) for index, (start, size) in enumerate(self.ranges) if 0 <= address - start <= size
        )
        return next(found, None)

    def point_at(self, block: _Block, word: int, address: int, name: str | None) -> int | None:
        """Patches a word of the block with an address; returns the buffer, or None for memory from outside.

        The function of Warp's library called ``name`` got only the address, so the array is looked for here.
        """
        if (place := self.place(address)) is not None:
            block.patches.append((word, *place))
            return place[0]
        if address in _constants.values():
            return CONSTANT
        if name and (array := self.owner(address)) is None:
            self.refuse(f"{name} got memory of no array that Warp knows. Pass the array as an argument")
        elif name:
            self.meet(array)
        return None

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

    def fill_in(self, block: _Block, at: int, kind: Any, content: bytes, name: str | None = None) -> list[int | None]:
        """Patches the addresses in memory of this C type; returns the buffers that they lead to."""
        found: list[int | None] = []
        for byte in addresses_in(kind):
            if address := int.from_bytes(content[byte : byte + WORD_BYTES], "little"):
                found.append(self.point_at(block, (at + byte) // WORD_BYTES, address, name))
        self.refuse_addresses("an argument", content, set(addresses_in(kind)))
        return found

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
        block = _Block()
        touched: list[tuple[int | None, int | Uses]] = []
        if condition is not None:
            block.words[0] = condition.ptr
            touched.append((self.point_at(block, 0, condition.ptr, "warp.capture_if"), _USES["r"]))
        self.operations.append(Recorded("jump", 0, *block.finished(), target, tuple(touched)))

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

    def refuse_addresses(self, what: str, content: bytes, known: Collection[int] = ()) -> None:
        """Refuses memory that holds the address of an array, besides at these bytes: it is another one in a call."""
        for byte in range(0, len(content) - WORD_BYTES + 1, WORD_BYTES):
            address = int.from_bytes(content[byte : byte + WORD_BYTES], "little")
            if byte not in known and address and self.place(address) is not None:
                self.refuse(f"{what} holds the address of an array as a number. Pass the array itself to the kernel")


class _Block:
    """The memory of one operation, while it is made."""

    def __init__(self) -> None:
        self.words = [0] * ARGUMENTS
        self.patches: list[tuple[int, int, int]] = []
        self._content = b""

    def put(self, content: bytes) -> int:
        """Adds memory; returns where it starts, in bytes."""
        self._content += bytes(-len(self._content) % 16)
        start = ARGUMENTS * WORD_BYTES + len(self._content)
        self._content += content
        return start

    def point(self, index: int, byte: int) -> None:
        """Makes an argument the address of a byte of the block."""
        self.patches.append((index, ITSELF, byte))

    def finished(self) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]:
        """The words, without any address, and the patches."""
        padded = self._content + bytes(-len(self._content) % WORD_BYTES)
        words = [*self.words, *np.frombuffer(padded, np.int64).tolist()]
        for word, *_ in self.patches:
            words[word] = 0
        return tuple(words), tuple(self.patches)
