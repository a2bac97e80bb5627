"""Reads and writes words of memory, and calls C functions, in code that Numba compiles.

An address is an ``int64``; a *word* is 8 bytes. These functions exist only inside code that Numba compiles. They check
nothing: the caller owns the memory and knows its layout (:mod:`bridge.ffi.native.abi`).
"""

from __future__ import annotations

import inspect

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from bridge.ffi.native.abi import API, ERROR, FRAME
from bridge.ffi.native.addresses import CONTEXT, EMPTY, MASK, SLOT_WORDS, SLOTS

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _on_words(emit, count=None):
    """An intrinsic that takes words and returns one, from the function that emits its code; without a value, 0."""
    names = [f"word_{index}" for index in range(count)] if count else list(inspect.signature(emit).parameters)[1:]

    def typed(typingctx, *args):
        def codegen(context, builder, signature, args):
            value = emit(builder, *args)
            return _I64(0) if value is None else value

        return types.int64(*[types.int64] * len(args)), codegen

    typed.__name__, typed.__doc__ = emit.__name__, emit.__doc__
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("typingctx", *names)]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return intrinsic(typed)


def _pointer(builder, address, element=_I8):
    return builder.inttoptr(address, element.as_pointer())


def _word(builder, address, index):
    return builder.gep(_pointer(builder, address, _I64), [index])


@_on_words
def load(builder, address, index):
    """Word ``index`` of the words at ``address``."""
    return builder.load(_word(builder, address, index))


@_on_words
def store(builder, address, index, value):
    """Writes word ``index`` of the words at ``address``."""
    builder.store(value, _word(builder, address, index))


@_on_words
def add_atomically(builder, address, index, value):
    """Adds to a word that other threads use too; returns what it was. Memory is seen in the order of such calls."""
    return builder.atomic_rmw("add", _word(builder, address, index), value, "seq_cst")


@_on_words
def load_atomically(builder, address, index):
    """A word that other threads change; what they wrote before is seen from then on."""
    return builder.load_atomic(_word(builder, address, index), "acquire", 8)


@_on_words
def context_word(builder, index):
    """Word ``index`` of the context that the loaded code was given, see :mod:`bridge.ffi.native.object_code`.

    So the code itself holds no address, and can be kept on disk.
    """
    known = builder.module.globals.get(CONTEXT)
    variable = known or cgutils.add_global_variable(builder.module, _I64, CONTEXT)
    variable.linkage = "common"  # each module of Numba defines it, and LLVM may not trust its initial value
    variable.initializer = _I64(0)
    return builder.load(_word(builder, builder.load(variable), index))


@_on_words
def copy_words(builder, target, source, count):
    """Copies ``count`` words to ``target``; the two do not overlap."""
    cgutils.raw_memcpy(builder, _pointer(builder, target), _pointer(builder, source), count, 8, align=8)


@_on_words
def load_int32(builder, address, byte):
    """The 32-bit integer ``byte`` bytes after ``address``."""
    return builder.sext(builder.load(_pointer(builder, builder.add(address, byte), _I32)), _I64)


@_on_words
def store_int32(builder, address, byte, value):
    """Writes the 32-bit integer ``byte`` bytes after ``address``."""
    builder.store(builder.trunc(value, _I32), _pointer(builder, builder.add(address, byte), _I32))


@_on_words
def fill_bytes(builder, address, byte, size):
    """Sets ``size`` bytes from ``address`` on to the lowest byte of ``byte``."""
    cgutils.memset(builder, _pointer(builder, address), size, builder.trunc(byte, _I8))


def _call(builder, function, *arguments):
    """Calls the C function at an address, which takes words and returns one: ``int64_t f(int64_t, ...)``.

    A function that returns 32 bits leaves the upper half of the word undefined.
    """
    prototype = ir.FunctionType(_I64, [_I64] * len(arguments))
    return builder.call(_pointer(builder, function, prototype), arguments)


call, call2, call3, call4, call5 = (_on_words(_call, 1 + arguments) for arguments in (1, 2, 3, 4, 5))


@intrinsic(prefer_literal=True)
def stack_words(typingctx, count):
    """Address of ``count`` (a literal) fresh words on the stack of the calling function, valid until it returns."""
    if not isinstance(count, types.IntegerLiteral):
        raise RequireLiteralValue("stack_words needs a literal count")
    size = max(1, count.literal_value)

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(cgutils.alloca_once(builder, _I64, size=size), _I64)

    return types.int64(count), codegen


native = numba.njit(error_model="numpy", forceinline=True)
"""Compiles code that works on words. It raises nothing. It is always inlined: LLVM does not inline Numba's functions
by itself, because they are weak symbols."""


@native
def create_error(frame, code, message):
    """A new ``XLA_FFI_Error`` from the C string at ``message``, which XLA copies."""
    args = stack_words(8)
    store(args, ERROR.SIZE, ERROR.BYTES)
    store(args, ERROR.EXTENSION, 0)
    store(args, ERROR.MESSAGE, message)
    store(args, ERROR.CODE, code)
    return call(load(load(frame, FRAME.API), API.ERROR_CREATE), args)


@numba.njit(inline="never")
def lookup(table, key):
    """The value of ``key`` in the :class:`~bridge.ffi.native.addresses.NativeTable` at the address ``table``, or 0."""
    block = load(table, 0)
    mask = load(block, MASK)
    slot = key & mask
    while True:
        at = SLOTS + SLOT_WORDS * slot
        found = load(block, at)
        if found == key:
            return load(block, at + 1)
        if found == EMPTY:
            return 0
        slot = (slot + 1) & mask
