"""Reads and writes words of memory, and calls C functions, in code that Numba compiles.

An address is an ``int64``; a *word* is 8 bytes. These functions exist only inside code that Numba compiles. They check
nothing: the caller owns the memory and knows its layout (:mod:`bridge.ffi.native.abi`).
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from bridge.ffi.native.object_code import CONTEXT

_I32, _I64, _POINTER = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


def _at(builder, address, index, element):
    base = builder.inttoptr(address, element.as_pointer())
    return builder.gep(base, [index])


def _at_byte(builder, address, byte, element):
    return builder.inttoptr(builder.add(address, byte), element.as_pointer())


@intrinsic
def load(typingctx, address, index):
    """Word ``index`` of the words at ``address``."""

    def codegen(context, builder, signature, args):
        address, index = args
        return builder.load(_at(builder, address, index, _I64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store(typingctx, address, index, value):
    """Writes word ``index`` of the words at ``address``."""

    def codegen(context, builder, signature, args):
        address, index, value = args
        builder.store(value, _at(builder, address, index, _I64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def add_atomically(typingctx, address, index, value):
    """Adds to a word that other threads use too; returns what it was. Memory is seen in the order of such calls."""

    def codegen(context, builder, signature, args):
        address, index, value = args
        return builder.atomic_rmw("add", _at(builder, address, index, _I64), value, "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def load_atomically(typingctx, address, index):
    """A word that other threads change; what they wrote before is seen from then on."""

    def codegen(context, builder, signature, args):
        address, index = args
        return builder.load_atomic(_at(builder, address, index, _I64), "acquire", 8)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def context_word(typingctx, index):
    """Word ``index`` of the context that the loaded code was given, see :mod:`bridge.ffi.native.object_code`.

    So the code itself holds no address, and can be kept on disk.
    """

    def codegen(context, builder, signature, args):
        known = builder.module.globals.get(CONTEXT)
        variable = known or cgutils.add_global_variable(builder.module, _I64, CONTEXT)
        variable.linkage = "common"  # each module of Numba defines it, and LLVM may not trust its initial value
        variable.initializer = _I64(0)
        return builder.load(_at(builder, builder.load(variable), args[0], _I64))

    return types.int64(types.int64), codegen


@intrinsic
def copy_words(typingctx, target, source, count):
    """Copies ``count`` words to ``target``; the two do not overlap."""

    def codegen(context, builder, signature, args):
        target, source, count = args
        pointers = [builder.inttoptr(address, _POINTER) for address in (target, source)]
        cgutils.raw_memcpy(builder, *pointers, count, 8, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def load_int32(typingctx, address, byte):
    """The 32-bit integer ``byte`` bytes after ``address``."""

    def codegen(context, builder, signature, args):
        address, byte = args
        return builder.sext(builder.load(_at_byte(builder, address, byte, _I32)), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store_int32(typingctx, address, byte, value):
    """Writes the 32-bit integer ``byte`` bytes after ``address``."""

    def codegen(context, builder, signature, args):
        address, byte, value = args
        builder.store(builder.trunc(value, _I32), _at_byte(builder, address, byte, _I32))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic(prefer_literal=True)
def stack_words(typingctx, count):
    """Address of ``count`` (a literal) fresh words on the stack of the calling function, valid until it returns."""
    if not isinstance(count, types.IntegerLiteral):
        raise RequireLiteralValue("stack_words needs a literal count")
    size = max(1, count.literal_value)

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(cgutils.alloca_once(builder, _I64, size=size), _I64)

    return types.int64(count), codegen


@intrinsic
def fill_bytes(typingctx, address, byte, size):
    """Sets ``size`` bytes from ``address`` on to the lowest byte of ``byte``."""

    def codegen(context, builder, signature, args):
        address, byte, size = args
        cgutils.memset(builder, builder.inttoptr(address, _POINTER), size, builder.trunc(byte, ir.IntType(8)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _call(context, builder, args):
    function, *arguments = args
    prototype = ir.FunctionType(_I64, [_I64] * len(arguments))
    return builder.call(builder.inttoptr(function, prototype.as_pointer()), arguments)


@intrinsic
def call(typingctx, function, argument):
    """Calls the C function ``int64_t f(int64_t)`` at the address ``function``."""

    def codegen(context, builder, signature, args):
        return _call(context, builder, args)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def call2(typingctx, function, first, second):
    """Calls the C function ``int64_t f(int64_t, int64_t)`` at the address ``function``."""

    def codegen(context, builder, signature, args):
        return _call(context, builder, args)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def call3(typingctx, function, first, second, third):
    """Calls the C function ``int64_t f(int64_t, int64_t, int64_t)`` at the address ``function``."""

    def codegen(context, builder, signature, args):
        return _call(context, builder, args)

    return types.int64(*[types.int64] * 4), codegen


@intrinsic
def call4(typingctx, function, first, second, third, fourth):
    """Calls the C function ``int64_t f(int64_t, int64_t, int64_t, int64_t)`` at the address ``function``."""

    def codegen(context, builder, signature, args):
        return _call(context, builder, args)

    return types.int64(*[types.int64] * 5), codegen


@intrinsic
def call5(typingctx, function, first, second, third, fourth, fifth):
    """Calls the C function ``int64_t f(int64_t, int64_t, int64_t, int64_t, int64_t)`` at the address ``function``."""

    def codegen(context, builder, signature, args):
        return _call(context, builder, args)

    return types.int64(*[types.int64] * 6), codegen


@intrinsic
def call_launch(typingctx, launch, kernel, dimensions, stream, parameters):
    """Calls ``cuLaunchKernel`` at the address ``launch``; returns its 32-bit result.

    ``dimensions`` is the address of seven words: grid (x, y, z), block (x, y, z) and dynamic shared memory in bytes.
    ``parameters`` is the address of an array with the addresses of the kernel's parameters.
    """

    def codegen(context, builder, signature, args):
        return _call_launch(builder, args, [ir.Constant(_POINTER, None)])

    return types.int64(*[types.int64] * 5), codegen


@intrinsic
def call_cooperative_launch(typingctx, launch, kernel, dimensions, stream, parameters):
    """Calls ``cuLaunchCooperativeKernel``, like :func:`call_launch`."""

    def codegen(context, builder, signature, args):
        return _call_launch(builder, args, [])

    return types.int64(*[types.int64] * 5), codegen


@intrinsic
def call_launch_with(typingctx, launch, configuration, kernel, parameters):
    """Calls ``cuLaunchKernelEx`` at the address ``launch``; returns its 32-bit result.

    ``configuration`` is the address of a ``CUlaunchConfig``, ``parameters`` as in :func:`call_launch`.
    """

    def codegen(context, builder, signature, args):
        launch, *addresses = args
        prototype = ir.FunctionType(_I32, [_POINTER] * 4)
        pointers = [builder.inttoptr(address, _POINTER) for address in addresses]
        function = builder.inttoptr(launch, prototype.as_pointer())
        return builder.sext(builder.call(function, [*pointers, ir.Constant(_POINTER, None)]), _I64)

    return types.int64(*[types.int64] * 4), codegen


def _call_launch(builder, args, last):
    launch, kernel, dimensions, stream, parameters = args
    prototype = ir.FunctionType(_I32, [_POINTER, *[_I32] * 7, _POINTER, _POINTER, *(value.type for value in last)])
    words = [builder.load(_at(builder, dimensions, _I64(index), _I64)) for index in range(7)]
    status = builder.call(
        builder.inttoptr(launch, prototype.as_pointer()),
        [
            builder.inttoptr(kernel, _POINTER),
            *(builder.trunc(word, _I32) for word in words),
            builder.inttoptr(stream, _POINTER),
            builder.inttoptr(parameters, _POINTER),
            *last,
        ],
    )
    return builder.sext(status, _I64)
