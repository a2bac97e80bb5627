"""Teaches Numba's CPU target float16 and bfloat16, for kernels with such arrays.

Numba has neither (https://github.com/numba/numba/issues/4402). Here an element of 16 bits becomes a float32 when it is
read, and is rounded once when it is stored. So everything is computed in float32, as JAX does it.

The bridge imports this module when it compiles the first kernel that needs it, and changes four parts of Numba while
such a kernel compiles (:func:`bridge.compat.numba.compiling_halves`).
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.typeconv import Conversion
from numba.extending import NativeValue, box, lower_builtin, lower_cast, overload, register_model, unbox

from bridge.compat.numba import compiling_halves, converts_float16
from bridge.errors import KernelCompileError

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


class Half(types.Float):  # type: ignore[misc]
    """The Numba type of float16 and bfloat16."""

    def __init__(self, name: str) -> None:
        types.Number.__init__(self, name)  # types.Float reads the size from the name
        self.bitwidth = 32  # not in memory

    def cast_python_value(self, value: Any) -> Any:
        """A constant in a kernel."""
        return np.float32(value)

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Prefers float32 to all other types."""
        if other == types.float32:
            return Conversion.promote
        if other == types.float64 or other in types.complex_domain:
            return Conversion.safe
        return Conversion.unsafe if isinstance(other, types.Integer | Half) else None

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Any real number may be stored."""
        return Conversion.unsafe if isinstance(other, types.Integer | types.Float | types.Boolean) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """The type of a variable that holds both, found as for a float32 and the other type."""
        other = types.unliteral(other)
        if isinstance(other, Half):
            return types.float32
        return typingctx.unify_pairs(types.float32, other) if isinstance(other, types.Number | types.Boolean) else None


FLOAT16, BFLOAT16 = Half("float16"), Half("bfloat16")


def known_to_numba() -> contextlib.AbstractContextManager[None]:
    """Makes Numba compute with the two types in the block, and take ``numpy.float16`` in a kernel for one of them.

    Raises:
        KernelCompileError: The processor does not convert float16; LLVM would call functions that are not there.
    """
    if not converts_float16():
        raise KernelCompileError("this processor does not convert float16. Convert the arrays to float32.")
    return compiling_halves({np.dtype(np.float16): FLOAT16, np.dtype("bfloat16"): BFLOAT16})


@register_model(Half)
class _Model(models.DataModel):  # type: ignore[misc]
    """A float32, except in memory."""

    def get_value_type(self) -> Any:
        return _F32

    def get_data_type(self) -> Any:
        return _I16

    def as_data(self, builder: Any, value: Any) -> Any:
        return _narrowed(builder, self._fe_type, value)

    def from_data(self, builder: Any, value: Any) -> Any:
        return _widened(builder, self._fe_type, value)

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    from_argument = as_return = from_return = as_argument


@lower_cast(Half, types.Float)
@lower_cast(Half, types.Integer)
@lower_cast(Half, types.Complex)
@lower_cast(Half, Half)
def _from_half(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    return value if isinstance(wanted, Half) else context.cast(builder, value, types.float32, wanted)


@lower_cast(types.Float, Half)
@lower_cast(types.Integer, Half)
@lower_cast(types.IntegerLiteral, Half)
@lower_cast(types.Boolean, Half)
def _to_half(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    if isinstance(kind, Half) or kind == types.float32:
        return value
    return _rounded_to_odd(builder, context.cast(builder, value, kind, types.float64))


@box(Half)
def _boxed(kind: Any, value: Any, python: Any) -> Any:
    """The value in an exception, or in what a kernel prints."""
    return python.pyapi.float_from_double(python.builder.fpext(value, _F64))


@unbox(Half)
def _unboxed(kind: Any, number: Any, python: Any) -> Any:
    """Numba compiles this for each of its own parallel loops, and never calls it."""
    value = python.builder.fptrunc(python.pyapi.float_as_double(number), _F32)
    return NativeValue(value, is_error=python.pyapi.c_api_error())


@overload(float)
def _float(value):  # type: ignore[no-untyped-def]  # Numba compares the parameters
    return (lambda value: np.float32(value)) if isinstance(value, Half) else None


@lower_builtin(types.NumberClass, types.Number)
def _number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """What ``np.float16(value)`` returns, or ``x.dtype.type(value)``: the value is rounded, as NumPy does it."""
    kind = signature.return_type
    value = context.cast(builder, arguments[0], signature.args[0], kind)
    return _widened(builder, kind, _narrowed(builder, kind, value)) if isinstance(kind, Half) else value


def _widened(builder: Any, kind: Half, bits: Any) -> Any:
    """The float32 that is equal to a number of 16 bits."""
    if kind == BFLOAT16:
        return builder.bitcast(builder.shl(builder.zext(bits, _I32), _I32(16)), _F32)
    return builder.fpext(builder.bitcast(bits, _F16), _F32)


def _narrowed(builder: Any, kind: Half, value: Any) -> Any:
    """The number of 16 bits that is next to a float32; of two that are as near, the even one."""
    if kind == BFLOAT16:
        return _to_bfloat16(builder, value)
    return builder.bitcast(builder.fptrunc(value, _F16), _I16)


def _rounded_to_odd(builder: Any, value: Any) -> Any:
    """A float64 as a float32: where it is not exact, the one of its two neighbours with an odd last bit.

    With two bits more than the result has, the second rounding then gives what one rounding would.
    """
    near = builder.fptrunc(value, _F32)
    back = builder.fpext(near, _F64)
    inexact = builder.fcmp_ordered("one", back, value)
    magnitude = _I64((1 << 63) - 1)
    larger = builder.icmp_unsigned(
        ">",
        builder.and_(builder.bitcast(back, _I64), magnitude),
        builder.and_(builder.bitcast(value, _I64), magnitude),
    )
    down = builder.sub(builder.bitcast(near, _I32), builder.zext(builder.and_(larger, inexact), _I32))
    return builder.bitcast(builder.or_(down, builder.zext(inexact, _I32)), _F32)


def _to_bfloat16(builder: Any, value: Any) -> Any:
    bits = builder.bitcast(value, _I32)
    odd = builder.and_(builder.lshr(bits, _I32(16)), _I32(1))
    nearest = builder.add(bits, builder.add(odd, _I32(0x7FFF)))
    nan = builder.icmp_unsigned(">", builder.and_(bits, _I32(0x7FFFFFFF)), _I32(0x7F800000))
    quiet = builder.or_(bits, _I32(0x400000))
    return builder.trunc(builder.lshr(builder.select(nan, quiet, nearest), _I32(16)), _I16)
