"""Records what a Python function does with Warp once, so that native code can repeat it on the CPU and on CUDA.

The function runs with arrays of the CPU that no kernel ever sees: each launch, and each call of Warp's library that
zeroes, fills, copies, scans, sums or sorts, is noted instead of made. It becomes a block of words, in which native code
fills in the addresses of a call. Any other call of the library is refused by its name. Warp keeps its own record at the
same time, of the operations that reach its library: if one does, it went past the notes, and the recording is refused
too. Nothing is compiled meanwhile. So the recording needs no GPU, and holds what CUDA has to know besides: the threads
of each block, and the launches that take the place of the library's functions.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import warp as wp

from bridge.errors import KernelCompileError, LaunchError, RecordingError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.addresses import c_function
from bridge.languages.warp.cpu_plan import MAX_BLOCK_WORDS
from bridge.languages.warp.device_memory import launch_instead
from bridge.languages.warp.dtypes import addresses_in
from bridge.languages.warp.generated import Generated, generating, takes_handle
from bridge.languages.warp.inputs import UNKNOWN, Uses
from bridge.languages.warp.packing import laid_out
from bridge.languages.warp.planned import generated_everywhere
from bridge.languages.warp.replay import ARGUMENTS, ITSELF, Operation, RecordedLaunch
from bridge.languages.warp.settings import block_dim_on, internals
from bridge.signature.array_types import ArrayType

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

_CONDITIONAL = ("capture_if", "capture_while")

_USES = {"r": frozenset({"load"}), "w": frozenset({"store"})}


_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Arrays of functions while they were recorded. Nothing is in their memory."""


@dataclass(frozen=True)
class WarpRecording:
    """What a function did.

    Attributes:
        name: The function.
        operations: In order, as on the CPU. Buffers are numbered: the arrays given to the function, then its
            temporaries.
        temporaries: Bytes of each temporary.
        uses: What was done with the memory of each buffer; None stands for all other memory.
        homes: The devices that have this other memory.
        codes: Gives the code of a kernel for blocks of so many threads, by platform.
        alive: What it refers to.
    """

    name: str
    operations: tuple[Operation, ...]
    temporaries: tuple[int, ...]
    uses: dict[int | None, Uses]
    homes: tuple[Any, ...]
    codes: Callable[[Any, int | None], Mapping[str, Generated | KernelCompileError]]
    alive: Any

    def on(self, platform: str) -> list[tuple[Operation, Generated | None]]:
        """The operations on a platform, each with the code of its kernel if it is a launch.

        Raises:
            RecordingError: One of them is not possible there.
            KernelCompileError: Warp cannot generate the code of a kernel.
        """
        made: list[tuple[Operation, Generated | None]] = []
        for op in self.operations:
            each = (op,) if platform == "cpu" or op.launch else op.on_cuda
            if each is None:
                what = f"no launch does what Warp's {op.name} does here"
                raise RecordingError(f"{self.name} cannot be recorded for CUDA: {what}{ADVICE}")
            for one in each:
                code = self.codes(one.launch.kernel, one.launch.block_dim)[platform] if one.launch else None
                if isinstance(code, KernelCompileError):
                    raise code
                made.append((one, code))
        return made

    def content(self, operations: Sequence[tuple[Operation, Generated | None]], buffers: Sequence[int]) -> str | None:
        """Everything that a replay does on the buffers with these numbers, as text.

        None if it refers to memory or objects of this process.
        """
        if None in self.uses or any(code and takes_handle(code) for _, code in operations):
            return None
        plain = [(replace(op, on_cuda=None), code and code.digest) for op, code in operations]
        return repr((plain, self.temporaries, buffers))


def record(
    name: str, function: Callable[..., None], make_arguments: Callable[[Callable[[ArrayType], int]], Any]
) -> WarpRecording:
    """Runs a function, and notes what it does.

    Args:
        name: The function, for errors.
        function: The function.
        make_arguments: Makes its arguments, from a function that gives an address for the type of an array.

    Raises:
        RecordingError: The function raised, or did something that cannot be repeated.
    """
    with generating():
        recorder = _Recorder(name)
        arguments = make_arguments(recorder.reserve)
        array_count = len(recorder.ranges)
        try:
            with _noting(recorder):
                function(*arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise recorder.error(f"{type(error).__name__}: {error}") from error
        if recorder.refused:  # the function caught the error
            raise recorder.error("")
        return recorder.recording(array_count)


class _Threads(int):
    """The block of a launch on the CPU, with the block that is asked for; None for Warp's default."""

    asked: int | None


def _threads(_: Any, asked: int | None) -> _Threads:
    if isinstance(asked, _Threads):
        return asked
    asked = asked if asked and asked > 0 else None
    block = _Threads(block_dim_on("cpu", asked))
    block.asked = asked
    return block


@dataclass
class _Recorder:
    """Notes what one function does, in the thread that makes this object."""

    name: str
    thread: int = field(default_factory=threading.get_ident)
    refused: str | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)
    homes: dict[str, Any] = field(default_factory=dict)
    alignments: list[int] = field(default_factory=list)
    bounds: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def error(self, otherwise: str) -> RecordingError:
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
                place = self.place(int(argument))
                if place is None:
                    self.refuse(f"{name} got memory that is no array of this call. Pass the array as an argument")
                else:
                    block.patches.append((index, *place))
                    touched.append((place[0], _USES[kind]))
            elif kind == "v":
                value = bytes(getattr(argument, "contents", argument))
                self.refuse_addresses("a value", value)
                block.point(index, block.put(value))
            else:
                descriptor = argument.contents
                at = block.put(bytes(descriptor))
                block.point(index, at)
                found = self.fill_in(block, at, type(descriptor), bytes(descriptor))
                if None in found:
                    self.refuse(f"{name} got memory that is no array of this call. Pass the array as an argument")
                touched += [(each, _USES[kind.lower()]) for each in found]
        done, self.operations = self.operations, []
        launches = tuple(self.operations) if launch_instead(name, self.alignment, arguments) else None
        self.operations = done
        entry = c_function(function)
        self.operations.append(Operation(name, entry, *block.finished(name), tuple(touched), on_cuda=launches))
        return True

    def alignment(self, address: int) -> int:
        """The bytes that an address is a multiple of in each call."""
        index, offset = self.place(address) or (0, 1)
        return math.gcd(self.alignments[index], offset)

    def bounds_of(self, build: Callable[..., Any], dim: Sequence[int], *more: Any) -> Any:
        """Makes the bounds of a launch on the CPU, and keeps those on CUDA, where a block may have more threads."""
        bounds = build(dim, *more)
        on_cuda = tuple(block_dim_on("cuda", each.asked) if isinstance(each, _Threads) else each for each in dim)
        self.bounds[id(bounds)] = bounds, build(on_cuda, *more)
        return bounds

    def load(self, module: Any, device: Any = None, block_dim: int | None = None, *_: Any) -> Any:
        """Stands in for the machine code of a module, which a launch that is noted does not need."""
        for kernel in module._get_live_kernels():
            for each in kernel.overloads.values() if kernel.is_generic else [kernel]:
                if not hasattr(each.adj, "kernel_dim"):
                    each.adj.get_references()  # finds the dimensions of a launch, which loading would have found
        code = {"forward": self, "backward": self, "block": _threads(device, block_dim)}
        hooks = types.SimpleNamespace(**code, det_launch_meta=None, cluster_dim=1)
        return types.SimpleNamespace(get_kernel_hooks=lambda kernel: hooks)

    def launch(self, kernel: Any, hooks: Any, params: Sequence[Any], adjoint: bool) -> None:
        """Notes a launch."""
        bounds, *arguments = params
        if hooks.forward is not self:
            self.refuse(f"{kernel.key} is launched by a command that is older than this call. Use warp.launch")
        on_cuda = self.bounds[id(bounds)][1]
        block, count = _Block(), len(kernel.adj.args)
        content, structs, offsets = laid_out(bounds, arguments, count)
        start = block.put(content)
        for index, at in enumerate((0, *structs)):
            block.point(index, start + at)
        touched: list[tuple[int | None, int | Uses]] = []
        for index, (argument, at) in enumerate(zip(arguments, offsets, strict=True)):
            kind = type(argument)
            found = self.fill_in(block, start + at, kind, bytes(argument))
            is_plain = hasattr(kind, "grad") and index < count
            touched += [(each, index if is_plain else UNKNOWN) for each in found]
        launch = RecordedLaunch(kernel, adjoint, int(on_cuda.size), hooks.block.asked, bytes(on_cuda), offsets)
        self.operations.append(Operation(kernel.key, 0, *block.finished(kernel.key), tuple(touched), launch))

    def place(self, address: int) -> tuple[int, int] | None:
        """The buffer that holds an address, or ends there, and the offset in it."""
        found = (
            (index, address - start) for index, (start, size) in enumerate(self.ranges) if 0 <= address - start <= size
        )
        return next(found, None)

    def fill_in(self, block: _Block, at: int, kind: Any, content: bytes) -> list[int | None]:
        """Patches the addresses in memory of this C type; returns the buffers that they lead to."""
        found: list[int | None] = []
        for byte in addresses_in(kind):
            address = int.from_bytes(content[byte : byte + WORD_BYTES], "little")
            place = self.place(address)
            if place is not None:
                block.patches.append(((at + byte) // WORD_BYTES, *place))
            if address:
                found.append(None if place is None else place[0])
        self.refuse_addresses("an argument", content, set(addresses_in(kind)))
        return found

    def refuse_addresses(self, what: str, content: bytes, known: Collection[int] = ()) -> None:
        """Refuses memory that holds the address of an array, besides at these bytes: it is another one in a call."""
        for byte in range(0, len(content) - WORD_BYTES + 1, WORD_BYTES):
            address = int.from_bytes(content[byte : byte + WORD_BYTES], "little")
            if byte not in known and address and self.place(address) is not None:
                self.refuse(f"{what} holds the address of an array as a number. Pass the array itself to the kernel")

    def recording(self, array_count: int) -> WarpRecording:
        """The recording. The first buffers are the function's arrays."""
        codes, used = functools.cache(generated_everywhere), functools.cache(Generated.uses)
        uses: dict[int | None, Uses] = {}
        for op in self.operations:
            launch: Any = op.launch
            made = codes(launch.kernel, launch.block_dim).values() if launch else ()
            found = [used(code, backward=launch.backward) for code in made if isinstance(code, Generated)]
            for buffer, use in op.touched:
                if not isinstance(use, frozenset):
                    use = frozenset[str]().union(*(each[launch.kernel.adj.args[use].label] for each in found))
                uses[buffer] = uses.get(buffer, frozenset()) | use
        temporaries, homes = tuple(size for _, size in self.ranges[array_count:]), tuple(self.homes.values())
        return WarpRecording(self.name, tuple(self.operations), temporaries, uses, homes, codes, self.alive)


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

    def finished(self, name: str) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]:
        """The words, without any address, and the patches."""
        padded = self._content + bytes(-len(self._content) % WORD_BYTES)
        words = [*self.words, *np.frombuffer(padded, np.int64).tolist()]
        if len(words) > MAX_BLOCK_WORDS:
            raise LaunchError(
                f"the arguments of {name} take {WORD_BYTES * len(words)} bytes, expected at most "
                f"{WORD_BYTES * MAX_BLOCK_WORDS}. Pass fewer arrays."
            )
        for word, *_ in self.patches:
            words[word] = 0
        return tuple(words), tuple(self.patches)


class _Library:
    """Stands in for Warp's library: the thread that records gets other functions, where they have an effect."""

    def __init__(self, library: Any, recorder: _Recorder):
        vars(self).update(library=library, recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, name)
        if threading.get_ident() != self.recorder.thread or not name.startswith("wp_"):
            return function
        return self.recorder.native(name, function)


@contextlib.contextmanager
def _noting(recorder: _Recorder) -> Iterator[None]:
    """Makes Warp ask the recorder in this thread. Other threads go on as they are."""
    context, device = internals(), wp.get_device("cpu")
    library = context.runtime.core
    resolve, bounds = "_resolve_launch_block_dim", "_build_launch_bounds_from_tuple"
    if not (hasattr(library, "wp_apic_get_operation_count") and hasattr(context, resolve) and hasattr(context, bounds)):
        recorder.refuse(f"Warp {wp.__version__} launches in another way. Install a later warp-lang")

    def only_here(do: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: (do if threading.get_ident() == recorder.thread else otherwise)(*args, **named)

    def reads(array: Any) -> Any:
        if threading.get_ident() != recorder.thread:
            return interface.__get__(array)
        return recorder.refuse(values)

    def exports(array: Any, *args: Any, **options: Any) -> Any:
        if threading.get_ident() != recorder.thread:
            return dlpack(array, *args, **options)
        return recorder.refuse(values)

    def capture_of(device: Any) -> Any:
        # Both functions ask for the capture, and then read the condition where it is.
        if threading.get_ident() == recorder.thread and (asks := sys._getframe(1).f_code.co_name) in _CONDITIONAL:
            recorder.refuse(f"it calls warp.{asks}, whose condition is known when it runs")
        return capture(device)

    def keep(*args: Any) -> Any:
        _, _, _, value, *_ = args
        made = _made.get(id(value))
        if made is not None and made is value and recorder.place(made.ptr or 0) is None:
            recorder.refuse("it uses an array that it made when it ran before. Make it outside of the function")
        if recorder.place(getattr(value, "ptr", None) or 0) is None:  # memory that outlives the recording
            recorder.alive.append(value)
            for each in vars(value).values() if hasattr(value, "_cls") else [value]:  # the fields of a struct
                if isinstance(each, wp.array) and each.ptr and recorder.place(each.ptr) is None:
                    recorder.homes[str(each.device)] = each.device
        elif isinstance(value, wp.array):
            _made[id(value)] = value
        return pack(*args)

    values = "it reads the values of an array, or writes them from Python"
    of_array: Any = wp.array
    interface, dlpack = of_array.__array_interface__, of_array.__dlpack__
    build = getattr(context, bounds)
    pack, capture = context.pack_arg, context._get_apic_capture_for_device
    replaced = [
        (context.runtime, "core", _Library(library, recorder)),
        *(
            (context, name, only_here(recorder.launch, getattr(context, name)))
            for name in ("invoke", "invoke_cpu_blocks")
            if hasattr(context, name)
        ),
        (context.Module, "load", only_here(recorder.load, context.Module.load)),
        (context, resolve, only_here(_threads, getattr(context, resolve))),
        (context, bounds, only_here(functools.partial(recorder.bounds_of, build), build)),
        (context, "pack_arg", only_here(keep, pack)),
        (context, "_get_apic_capture_for_device", capture_of),
        (wp.array, "__array_interface__", property(reads)),
        (wp.array, "__dlpack__", exports),
        *(
            (device, name, only_here(recorder.native(f"wp_{name}_host", getattr(library, f"wp_{name}_host")), old))
            for name, old in (("memset", device.memset), ("memtile", device.memtile))
        ),
    ]
    record = library.wp_apic_create_state()
    with contextlib.ExitStack() as stack:
        stack.callback(library.wp_apic_destroy_state, record)
        stack.callback(lambda: [library.wp_free_host(address) for address in recorder.freed])
        stack.enter_context(wp.ScopedDevice(device))
        for of, name, new in replaced:
            stack.callback(setattr, of, name, getattr(of, name))
            setattr(of, name, new)
        library.wp_apic_begin_recording(record, 1)
        stack.callback(library.wp_apic_end_recording, record)
        yield
        if count := library.wp_apic_get_operation_count(record):
            recorder.refuse(f"Warp's own record holds {count} operations that went past this one")
