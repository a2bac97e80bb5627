"""Writes the LLVM code that calls a C function with what a user's function of the arrays returns, and checks that."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils

from bridge.compat.cpython import C_POINTER
from bridge.errors import SignatureError
from bridge.ffi.native.addresses import c_function, emit_word
from bridge.ffi.native.call_frame import STREAM_WORD
from bridge.ffi.native.exception_text import create_error
from bridge.kernel.arguments import ArrayType, Signature, asked
from bridge.kernel.language import Definition
from bridge.kernel.references import place_of

_I32, _I64, _POINTER = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)
def _failed(frame: int, text: bytes, number: int) -> int:
    """Called by native code where a call fails; returns the address of an error that ends with a number."""
    return create_error(frame, f"{text.decode()} {number}")


_FAILED = "bridge_native_failed"
binding.add_symbol(_FAILED, c_function(_failed))


@dataclass(frozen=True, eq=False)
class Array:
    """Stands for an input or output where a user says what a C function is called with. It has no values."""

    dtype: np.dtype[Any]
    shape: tuple[np.int64, ...]
    pointer: ir.Value

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def ndim(self) -> np.int64:
        return np.int64(len(self.shape))

    @property
    def itemsize(self) -> np.int64:
        return np.int64(self.dtype.itemsize)

    @property
    def size(self) -> Any:
        return math.prod(self.shape, start=np.int64(1))

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize


class Stream:
    """The type of :data:`STREAM`."""

    def __repr__(self) -> str:
        return "STREAM"


STREAM = Stream()
"""Stands for XLA's stream, a ``cudaStream_t``, where a user says what a function of :func:`bridge.native_kernel` is
called with: ``lambda x, out: (STREAM, x, x.size, out)``. The function enqueues its work on it, and does not wait."""


@dataclass(frozen=True, eq=False)
class NativeDefinition(Definition):
    """A C function; ``function`` is the user's function of the arrays that says what it is called with.

    Attributes:
        address: Where the C function is loaded.
        argtypes: The ctypes types of its parameters; None if they are not stated.
        returns_status: Whether it returns an int that is 0 if a call succeeds.
        alive: What the user passed, which keeps the function loaded.
        content: Identifies its machine code in every process; None if only this process has it.
        on_stream: Whether it gets XLA's stream and pointers to device memory.
    """

    address: int = field(repr=False)
    argtypes: tuple[Any, ...] | None
    returns_status: bool
    alive: Any = field(repr=False)
    content: str | None = field(repr=False)
    on_stream: bool = False


def given_by(definition: Definition, arrays: list[Array], inputs: int, count: int | None = None) -> tuple[Any, ...]:
    """What the user's function says that a C function is called with: of ``arrays``, inputs and then outputs.

    Raises:
        SignatureError: It returns no tuple of ``count`` items, or leaves out an output.
    """
    says = said_by(definition)
    gets = "It gets no values, and of each array ndim, shape, size, itemsize, nbytes and dtype."
    given = asked(definition.function, arrays, says, gets)
    if not isinstance(given, tuple) or count not in (None, len(given)):
        got = f"{len(given)} items" if isinstance(given, tuple) else f"a {type(given).__name__}"
        needed = "" if count is None else f" of {count}, as many as argtypes has"
        raise SignatureError(
            f"{says} returned {got}, expected a tuple{needed}. Return what the function is called with."
        )
    for index, array in enumerate(arrays[inputs:]):
        if not any(each is array for each in given):
            raise SignatureError(f"{says} leaves out output {index}. Return it too, so that the function writes it.")
    return given


def said_by(definition: Definition) -> str:
    """How errors begin that are about what the user's function returns."""
    return f"{definition.name}: arguments ({place_of(definition.function)})"


def entry_code(definition: NativeDefinition, signature: Signature) -> str:
    """LLVM code of the function of a :class:`~bridge.ffi.plans.host.HostPlan` whose context is a C function's address.

    Raises:
        SignatureError: What the user's function returns does not fit the C function, or leaves out an output.
    """
    entry, types, says = _NativeEntry(), definition.argtypes, said_by(definition)
    arrays = [entry.array(index, each) for index, each in enumerate(signature.arrays)]
    given = given_by(definition, arrays, len(signature.inputs), None if types is None else len(types))
    if definition.on_stream is not any(each is STREAM for each in given):
        raise SignatureError(
            f"{says} leaves out bridge.STREAM. Return it where the function takes its stream, so that its work comes "
            "after the inputs and before what uses the outputs."
            if definition.on_stream
            else f"{says} has bridge.STREAM, which calls on the CPU do not have. Pass platform='cuda'."
        )
    items = enumerate(zip(given, types or [None] * len(given), strict=True))
    values = [entry.argument(f"{says}: item {at}", *item) for at, item in items]
    return entry.call(definition.name, values, definition.returns_status)


class Entry:
    """Emits the code of a function ``int64_t f(frame, buffers, data, batch rank, context)``, which returns an error."""

    def __init__(self) -> None:
        self.module = ir.Module("bridge")
        function = ir.Function(self.module, ir.FunctionType(_I64, [_I64] * 5), "bridge_entry")
        self.frame, _, self.data, _, self.context = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())

    def word(self, index: int) -> ir.Value:
        """A word of the call: the address of an array, or another one."""
        return emit_word(self.builder, self.data, _I64(index))

    def array(self, index: int, kind: ArrayType) -> Array:
        """What stands for an array, with the pointer that is passed for it."""
        pointer = self.builder.inttoptr(self.word(index), _POINTER)
        return Array(np.dtype(kind.dtype), tuple(map(np.int64, kind.extents)), pointer)

    def finished(self, status: ir.Value, function: str, *arguments: ir.Value) -> str:
        """The whole code. Where a status is not 0, a function of these arguments and the status makes the error."""
        number = self.builder.sext(status, _I64)
        prototype = ir.FunctionType(_I64, [_I64, *(each.type for each in arguments), _I64])
        fail = ir.Function(self.module, prototype, function)
        with cgutils.if_unlikely(self.builder, self.builder.icmp_signed("!=", number, _I64(0))):
            self.builder.ret(self.builder.call(fail, [self.frame, *arguments, number]))
        self.builder.ret(_I64(0))
        return str(self.module)


class _NativeEntry(Entry):
    """Calls a C function by its address, and checks arguments on the way."""

    def argument(self, where: str, given: Any, ctype: Any) -> ir.Value:
        """The value that is passed for an item of the user's tuple, to a parameter of this type if it is stated."""
        stated, is_pointer = _stated(ctype)
        takes_pointer = ctype is None or is_pointer
        if given is STREAM and (takes_pointer or (stated is not None and stated.kind in "iu" and stated.itemsize == 8)):
            return self.word(STREAM_WORD)
        if isinstance(given, bytes) and takes_pointer:
            return self._text(given)
        if isinstance(given, Array) and takes_pointer and (stated is None or stated == given.dtype):
            return given.pointer
        if isinstance(given, int | float | np.generic):
            dtype = getattr(given, "dtype", None) if ctype is None else stated
            if dtype is not None and (number := self._number(given, dtype)) is not None:
                return cgutils.alloca_once_value(self.builder, number) if is_pointer else self._extended(number, dtype)
        got = f"an array of {given.dtype}" if isinstance(given, Array) else f"{given!r} of type {type(given).__name__}"
        raise SignatureError(
            f"{where} is {got}, {'whose C type is not stated' if ctype is None else f'but argtypes states {ctype}'}. "
            "Pass an array or bytes to a pointer (to anything: ctypes.c_void_p), and a size, an extent or a NumPy "
            "scalar, as np.float32(2), to a number or a pointer to it."
        )

    def _number(self, given: Any, dtype: np.dtype[Any]) -> ir.Value | None:
        """A size or number of this type; None if the type cannot hold it."""
        kind = _number_type(dtype)
        if kind is None:
            return None
        value = float(given) if dtype.kind == "f" else int(np.asarray(given).astype(dtype))
        return kind(value) if dtype.kind == "f" or value == given else None

    def _extended(self, number: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
        """An integer in at least 32 bits: C functions get narrow ones so."""
        if dtype.kind == "f" or dtype.itemsize >= 4:
            return number
        return (self.builder.sext if dtype.kind == "i" else self.builder.zext)(number, _I32)

    def call(self, name: str, values: list[ir.Value], returns_status: bool) -> str:
        """Emits the call; returns the whole code."""
        prototype = ir.FunctionType(_I32 if returns_status else ir.VoidType(), [value.type for value in values])
        status = self.builder.call(self.builder.inttoptr(self.context, prototype.as_pointer()), values)
        text = self._text(f"{name} returned the status".encode())
        return self.finished(status if returns_status else _I32(0), _FAILED, text)

    def _text(self, text: bytes) -> ir.Value:
        content = cgutils.make_bytearray(text + b"\0")
        variable = cgutils.global_constant(self.module, self.module.get_unique_name("text"), content)
        return self.builder.bitcast(variable, _POINTER)


def _stated(ctype: Any) -> tuple[np.dtype[Any] | None, bool]:
    """The dtype of a ctypes number, or of what a pointer points to, if it has one; and whether it is a pointer."""
    is_pointer = isinstance(ctype, type) and issubclass(ctype, ctypes.c_void_p | ctypes.c_char_p | C_POINTER)
    if isinstance(ctype, type) and issubclass(ctype, ctypes.c_void_p | ctypes.c_char_p):
        ctype = getattr(ctype, "_dtype_", None)  # of numpy.ctypeslib.ndpointer
    try:
        return None if ctype is None else np.dtype(getattr(ctype, "_type_", ctype)), is_pointer
    except TypeError:
        return np.dtype(object), is_pointer


def _number_type(dtype: np.dtype[Any]) -> ir.Type | None:
    """The LLVM type of a number that C functions get; None for other dtypes."""
    if dtype.kind == "f":
        return {4: ir.FloatType(), 8: ir.DoubleType()}.get(dtype.itemsize)
    return ir.IntType(8 * dtype.itemsize) if dtype.kind in "biu" else None
