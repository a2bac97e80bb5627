"""Makes the native code that calls a C function: it reads pointers and sizes from the buffers of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from bridge.ffi.native.abi import BUFFER
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.native.object_code import LoadedObject, assembled
from bridge.ffi.target import create_error
from bridge.languages.native_cpu.arguments import Argument, Array, Size

_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)
def _failed(frame: int, text: bytes, number: int) -> int:
    """Called by native code when a call fails; returns the address of an error that ends with the number."""
    return create_error(frame, f"{text.decode()} {number}")


_FAILED = ir.FunctionType(_I64, [_I64, _I64, _I64])


def entry(
    address: int, name: str, arguments: Sequence[Argument], status: np.dtype[Any] | None
) -> tuple[LoadedObject, Any]:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan` that calls another, and memory that it refers to.

    Args:
        address: The C function.
        name: The kernel, for errors.
        arguments: What it is called with.
        status: The type of the status that it returns; None if it returns nothing of interest.
    """
    module = ir.Module(name)
    code = _Code(module, name)
    builder, held = code.builder, [each.value for each in arguments if isinstance(each.value, bytes)]
    values = [code.emit(each) for each in arguments]
    result = ir.VoidType() if status is None else _type(status)
    prototype = ir.FunctionType(result, [value.type for value in values])
    narrow = {at: (_extension(each.dtype),) for at, each in enumerate(arguments) if not each.by_address}
    called = builder.call(
        builder.inttoptr(_I64(address), prototype.as_pointer()),
        values,
        arg_attrs={at: attributes for at, attributes in narrow.items() if attributes[0]},
    )
    if status is not None:
        word = _widened(builder, called, status)
        code.fail_if(builder.icmp_signed("!=", word, _I64(0)), f"{name} returned the status", word)
    builder.ret(_I64(0))
    return assembled(str(module)), held


class _Code:
    """Emits the entry."""

    def __init__(self, module: ir.Module, name: str):
        self._name = name
        function = ir.Function(module, ir.FunctionType(_I64, [_I64] * 5), "bridge_entry")
        self._frame, self._buffers, self._data, self._batch_rank, _ = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())

    def emit(self, argument: Argument) -> ir.Value:
        value, dtype, builder = argument.value, argument.dtype, self.builder
        if isinstance(value, Array):
            return builder.inttoptr(self._word(self._data, _I64(value.buffer)), _POINTER)
        if isinstance(value, bytes):
            return builder.inttoptr(_I64(c_function(ctypes.c_char_p(value))), _POINTER)
        assert dtype is not None
        number = self._size(value, dtype) if isinstance(value, Size) else ir.Constant(_type(dtype), value)
        if not argument.by_address:
            return number
        return builder.bitcast(cgutils.alloca_once_value(builder, number), _POINTER)

    def _size(self, size: Size, dtype: np.dtype[Any]) -> ir.Value:
        dims = self._word(self._word(self._buffers, _I64(size.buffer)), _I64(BUFFER.DIMS))
        elements: ir.Value = _I64(1)
        for axis in size.axes:
            elements = self.builder.mul(elements, self._word(dims, self.builder.add(self._batch_rank, _I64(axis))))
        if dtype.itemsize == 8:
            return elements
        number = self.builder.trunc(elements, _type(dtype))
        other = self.builder.icmp_signed("!=", _widened(self.builder, number, dtype), elements)
        self.fail_if(other, f"{self._name} takes the size of an array as {dtype.name}, which cannot hold", elements)
        return number

    def _word(self, address: ir.Value, index: ir.Value) -> ir.Value:
        words = self.builder.inttoptr(address, _I64.as_pointer())
        return self.builder.load(self.builder.gep(words, [index]))

    def fail_if(self, failed: ir.Value, text: str, number: ir.Value) -> None:
        """Emits an error that ends with a number."""
        with cgutils.if_unlikely(self.builder, failed):
            make = self.builder.inttoptr(_I64(c_function(_failed)), _FAILED.as_pointer())
            self.builder.ret(self.builder.call(make, [self._frame, _I64(c_string(text)), number]))


def _type(dtype: np.dtype[Any]) -> ir.Type:
    if dtype.kind == "f":
        return ir.FloatType() if dtype.itemsize == 4 else ir.DoubleType()
    return ir.IntType(8 * dtype.itemsize)


def _extension(dtype: np.dtype[Any] | None) -> str | None:
    """How a caller extends an integer to a register, as C compilers expect it of each other."""
    if dtype is None or dtype.kind == "f" or dtype.itemsize >= 8:
        return None
    return "signext" if dtype.kind == "i" else "zeroext"


def _widened(builder: ir.IRBuilder, number: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    if dtype.itemsize == 8:
        return number
    return (builder.sext if dtype.kind == "i" else builder.zext)(number, _I64)
