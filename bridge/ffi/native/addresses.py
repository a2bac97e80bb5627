"""Fills memory that native code reads, emits code that reads it, and loads code.

It holds words, texts, the arrays of a plan, a hash table, object code, and functions whose code is set later.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import binding, ir

from bridge.errors import SignatureError
from bridge.ffi.native.abi import BUFFER

_kept: list[bytes] = []
_texts: dict[str, int] = {}


def keep(words: Iterable[int]) -> int:
    """Copies 64-bit words into memory that lives as long as the process; returns the address of the first.

    Native code uses them at any time. They are bytes, because Python's garbage collector
    does not look at those: else each collection would take longer with every kernel that was ever called.

    Raises:
        OverflowError: A number does not fit into 64 bits, signed or unsigned.
    """
    return _keep(b"".join(word.to_bytes(8, "little", signed=word < 0) for word in words))


def _keep(content: bytes) -> int:
    _kept.append(content)
    return c_function(ctypes.c_char_p(content))


def c_string(text: str) -> int:
    """Address of ``text`` as a C string that lives as long as the process."""
    address = _texts.get(text)
    if address is None:
        address = _texts.setdefault(text, _keep(text.encode(errors="replace")))
    return address


def c_function(function: Any) -> int:
    """Address of a C function that ctypes has found or made. If ctypes has made it, the caller must keep it alive."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def words_at(address: int | None, count: int) -> list[int]:
    """Copies 8-byte words, such as addresses and extents. Where there are none, there need be no address."""
    return list((ctypes.c_int64 * count).from_address(address or 0)) if count else []


MAX_BUFFERS = 1024
"""The largest number of arrays of a call, inputs and outputs together."""


def check_count(name: str, count: int) -> None:
    """Raises SignatureError if a call has more arrays than native code can hold."""
    if count > MAX_BUFFERS:
        raise SignatureError(f"{name} has {count} arrays, expected at most {MAX_BUFFERS}. Stack some of them into one.")


class Arrays(NamedTuple):
    """The arrays of a kernel.

    Attributes:
        name: The kernel, for error messages.
        inputs: Rank (without batch dimensions) and item size in bytes of each input.
        outputs: The same of each output; at least one.
    """

    name: str
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]

    def header(self) -> list[int]:
        """The first words of a plan.

        Raises:
            SignatureError: There are more buffers than native code can hold.
        """
        name, inputs, outputs = self
        check_count(name, len(inputs) + len(outputs))
        miscounted = f"{name} was called with other buffers than its {len(inputs)} inputs and {len(outputs)} outputs"
        sizes = keep([word for buffer in (*inputs, *outputs) for word in buffer])
        return [len(inputs), len(outputs), sizes, c_string(miscounted), c_string(name)]


def emit_word(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
    """Emits a load of word ``index`` of the words at ``address``, in LLVM code that is not compiled from Python."""
    return builder.load(builder.gep(builder.inttoptr(address, index.type.as_pointer()), [index]))


def emit_extents(
    builder: ir.IRBuilder, buffers: ir.Value, index: int, batch_rank: ir.Value, rank: int
) -> list[ir.Value]:
    """Emits loads of the extents of buffer ``index`` without its batch dimensions: LLVM values, as many as ``rank``."""
    word = batch_rank.type
    dims = emit_word(builder, emit_word(builder, buffers, word(index)), word(BUFFER.DIMS))
    return [emit_word(builder, dims, builder.add(batch_rank, word(axis))) for axis in range(rank)]


CONTEXT = "bridge_context"
"""The variable in object code that holds the address of the words which native code reads as its context."""

ENTRY = "bridge_entry"
"""The function in object code that is called."""

EMPTY = 0
"""The key of an empty slot."""

MASK, SLOTS, SLOT_WORDS = 0, 1, 2
"""The layout of a block: ``[mask, key 0, value 0, key 1, value 1, ...]``."""


class NativeTable:
    """A hash table with open addressing and linear probing. Native code on any thread can read it.

    Keys are non-zero signed 64-bit integers, values non-zero addresses. Writers hold a lock, and publish a slot by
    writing its key last. A larger block is published by writing one word. Old blocks stay allocated for their readers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[int, int] = {}
        self._blocks: list[ctypes.Array[ctypes.c_int64]] = []
        self._root = (ctypes.c_int64 * 1)()
        self._publish(256)

    @property
    def address(self) -> int:
        """Address of the table for :func:`bridge.ffi.native.words.lookup`; it never changes."""
        return ctypes.addressof(self._root)

    def forget(self) -> None:
        """Makes native code find nothing any more. It takes no lock."""
        self._values = {}
        self._publish(1)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: int) -> bool:
        return key in self._values

    def __setitem__(self, key: int, value: int) -> None:
        with self._lock:
            self._values[key] = value
            capacity = self._blocks[-1][MASK] + 1
            if 2 * len(self._values) > capacity:
                self._publish(4 * capacity)
            else:
                _write(self._blocks[-1], key, value)

    def _publish(self, capacity: int) -> None:
        """Publishes a new block with all values. The capacity is a power of two, and one slot stays empty."""
        block = (ctypes.c_int64 * (SLOTS + SLOT_WORDS * capacity))()
        block[MASK] = capacity - 1
        for key, value in self._values.items():
            _write(block, key, value)
        self._blocks.append(block)
        self._root[0] = ctypes.addressof(block)


def _write(block: ctypes.Array[ctypes.c_int64], key: int, value: int) -> None:
    slot = key & block[MASK]
    while block[SLOTS + SLOT_WORDS * slot] not in (EMPTY, key):
        slot = (slot + 1) & block[MASK]
    at = SLOTS + SLOT_WORDS * slot
    block[at + 1] = value
    block[at] = key


class LoadedObject:
    """Object code in memory, which lives as long as the Python object.

    Args:
        content: What LLVM emitted for a processor of this kind. It does not check it: other bytes may end the process.
        entry: The function to call.
    """

    def __init__(self, content: bytes, entry: str = ENTRY):
        module = binding.parse_assembly(f'target triple = "{binding.get_process_triple()}"')
        self._engine = binding.create_mcjit_compiler(module, _machine())  # its own, so no name is taken
        self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address(entry))

    def set_context(self, words: int) -> None:
        """Sets the address of the words of the function's context."""
        variable = int(self._engine.get_global_value_address(CONTEXT))
        ctypes.c_int64.from_address(variable).value = words


def _machine() -> binding.TargetMachine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine()


def assembled(code: str) -> LoadedObject:
    """A native function in memory, from LLVM code that defines it as ``bridge_entry`` and refers to nothing outside."""
    with parsed(code) as (module, _):
        return LoadedObject(_machine().emit_object(module))


@contextlib.contextmanager
def parsed(code: str | bytes) -> Iterator[tuple[binding.ModuleRef, binding.ContextRef]]:
    """LLVM code, as text or bitcode, in a module that is closed at the end of the block, and the module's context.

    The context is its own, because LLVM frees types and constants with their context. Python's garbage collector would
    not close them in order, so no LLVM object lives longer than the block.
    """
    context = binding.create_context()
    module = (binding.parse_assembly if isinstance(code, str) else binding.parse_bitcode)(code, context)
    try:
        yield module, context
    finally:
        module.close()
        context.close()


class Trampoline:
    """Machine code ``int64_t f(int64_t)`` at a fixed address that calls the function set by :meth:`point_at`.

    It lives as long as the object.
    """

    def __init__(self, first: int):
        self._cell = (ctypes.c_int64 * 1)(first)
        self._code = assembled(
            f"""
            define i64 @{ENTRY}(i64 %frame) {{
              %function = load ptr, ptr inttoptr (i64 {ctypes.addressof(self._cell)} to ptr)
              %error = tail call i64 %function(i64 %frame)
              ret i64 %error
            }}"""
        )
        self.address = self._code.address

    def point_at(self, function: int) -> None:
        """Makes calls from now on go to the function at this address."""
        self._cell[0] = function
