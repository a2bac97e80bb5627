"""Gives Numba CPU kernels vector registers: a fixed number of elements that one instruction works on.

LLVM vectorises most loops by itself. It does not where the order of operations shows (a sum without fast-math, a
maximum with NaN), nor well where a loop is short. A kernel that says itself which lanes it keeps has no such limits.
LLVM splits lanes that are wider than the registers of a processor.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

LANES_BYTES = 64
"""Size of the lanes: the widest registers of x86."""


class Lanes(types.Type):  # type: ignore[misc]
    """Numba's type of lanes of a dtype."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.count = LANES_BYTES * 8 // dtype.bitwidth
        super().__init__(f"lanes({dtype} x {self.count})")


class _Mask(types.Type):  # type: ignore[misc]
    """Numba's type of a truth value for each of a number of lanes."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"mask({count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = manager.lookup(lanes.dtype).get_data_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.count))


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, mask: _Mask) -> None:
        super().__init__(manager, mask, ir.IntType(mask.count))


def lane_count(x):  # type: ignore[no-untyped-def]
    """How many elements of the vector x are in one set of lanes: 16 of 4 bytes, 8 of 8 bytes."""
    raise NotImplementedError("for kernels only")


@overload(lane_count)
def _lane_count(x):  # type: ignore[no-untyped-def]
    count = Lanes(x.dtype).count
    return lambda x: count


@intrinsic
def load_lanes(typingctx, x, start):  # type: ignore[no-untyped-def]
    """The elements of the contiguous array x from ``start`` on, row by row. Nothing checks that they all lie in x."""
    lanes = Lanes(x.dtype)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_place(context, builder, signature, args), align=x.dtype.bitwidth // 8)

    return lanes(x, types.intp), codegen


@intrinsic
def load_first_lanes(typingctx, x, start, count, others):  # type: ignore[no-untyped-def]
    """The ``count`` elements of x from ``start`` on, then the number ``others`` in the other lanes.

    They are all elements if there are more, and none if ``count`` is not positive: then nothing is read.
    """
    lanes = Lanes(x.dtype)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind, size = context.get_value_type(lanes), x.dtype.bitwidth // 8
        inside, pointer = _inside(builder, args[2], lanes.count), _place(context, builder, signature, args)
        rest = in_all(builder, args[3], lanes.count)
        prototype = ir.FunctionType(kind, [pointer.type, ir.IntType(32), inside.type, kind])
        name = f"llvm.masked.load.{_suffix(lanes)}.p0"
        function = cgutils.get_or_insert_function(builder.module, prototype, name)
        return builder.call(function, [pointer, ir.IntType(32)(size), inside, rest])

    return lanes(x, types.intp, types.intp, x.dtype), codegen


@intrinsic
def store_first_lanes(typingctx, x, start, count, lanes):  # type: ignore[no-untyped-def]
    """Writes the first ``count`` lanes to the elements of the contiguous array x from ``start`` on.

    These are all lanes if there are no more.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        inside, pointer = _inside(builder, args[2], lanes.count), _place(context, builder, signature, args)
        name, size = f"llvm.masked.store.{_suffix(lanes)}.p0", x.dtype.bitwidth // 8
        arguments = [args[3].type, pointer.type, ir.IntType(32), inside.type]
        prototype = ir.FunctionType(ir.VoidType(), arguments)
        function = cgutils.get_or_insert_function(builder.module, prototype, name)
        builder.call(function, [args[3], pointer, ir.IntType(32)(size), inside])
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, lanes), codegen


def _each_lane(of_floats: str, of_integers: str) -> Any:
    """The intrinsic of an operation on lanes and lanes, or on lanes and a number, which then counts for each lane.

    Args:
        of_floats: The method of LLVM's builder for floats.
        of_integers: The same for integers.
    """

    @intrinsic
    def operation(typingctx, a, b):  # type: ignore[no-untyped-def]
        lanes = a if isinstance(a, Lanes) else b

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            both = [
                arg if isinstance(kind, Lanes) else in_all(builder, arg, lanes.count)
                for arg, kind in zip(args, signature.args, strict=True)
            ]
            return getattr(builder, of_floats if isinstance(lanes.dtype, types.Float) else of_integers)(*both)

        return lanes(a, b), codegen

    return operation


_ADD, _SUBTRACT, _MULTIPLY = _each_lane("fadd", "add"), _each_lane("fsub", "sub"), _each_lane("fmul", "mul")


def _are_lanes(a: Any, b: Any) -> bool:
    """Whether two types are lanes and lanes, or lanes and a number, of one dtype."""
    return (isinstance(a, Lanes) and b in (a, a.dtype)) or (isinstance(b, Lanes) and a == b.dtype)


@overload(operator.add)
def _add(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _ADD(a, b)) if _are_lanes(a, b) else None


@overload(operator.sub)
def _subtract(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _SUBTRACT(a, b)) if _are_lanes(a, b) else None


@overload(operator.mul)
def _multiply(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _MULTIPLY(a, b)) if _are_lanes(a, b) else None


@intrinsic
def kept_within(typingctx, x, lowest, highest):  # type: ignore[no-untyped-def]
    """A float, or each of lanes of them, or the limit beyond which it lies.

    NaN is kept, because no comparison with it is true.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        value = args[0]
        for limit, beyond in zip(args[1:], "<>", strict=True):
            limits = in_all(builder, limit, x.count) if isinstance(x, Lanes) else limit
            value = builder.select(builder.fcmp_ordered(beyond, value, limits), limits, value)
        return value

    return x(x, lowest, highest), codegen


@intrinsic
def larger_lanes(typingctx, a, b):  # type: ignore[no-untyped-def]
    """In each lane the larger of two elements; where a or b is NaN, the one of a."""
    return a(a, a), lambda context, builder, signature, args: _larger(builder, a, *args)


@intrinsic
def largest_lane(typingctx, a):  # type: ignore[no-untyped-def]
    """The largest element of lanes without NaN."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _folded(builder, a, args[0], lambda one, other: _larger(builder, a, one, other))

    return a.dtype(a), codegen


@intrinsic
def nan_lanes(typingctx, a, b):  # type: ignore[no-untyped-def]
    """The lanes in which a or b is NaN. Integers are never NaN."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        if not isinstance(a.dtype, types.Float):
            return ir.IntType(a.count)(0)
        return _bits(builder, builder.fcmp_unordered("uno", *args), a.count)

    return _Mask(a.count)(a, a), codegen


@intrinsic
def first_lane(typingctx, mask):  # type: ignore[no-untyped-def]
    """The first of the lanes in a mask; the number of lanes if there is none."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.zext(builder.cttz(args[0], ir.IntType(1)(0)), ir.IntType(64))

    return types.intp(mask), codegen


@intrinsic
def either_mask(typingctx, mask, other):  # type: ignore[no-untyped-def]
    """The lanes that are in one of two masks."""
    return mask(mask, mask), lambda context, builder, signature, args: builder.or_(*args)


@intrinsic
def zero_lanes(typingctx, x):  # type: ignore[no-untyped-def]
    """Zero in each lane, of the dtype of the vector x."""
    lanes = Lanes(x.dtype)
    return lanes(x), lambda context, builder, signature, args: context.get_value_type(lanes)(None)


@intrinsic
def add_products(typingctx, total, a, b):  # type: ignore[no-untyped-def]
    """``total + a * b`` in each lane; the product may be rounded or not, as the processor likes it best."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        total, a, b = args
        if not isinstance(signature.return_type.dtype, types.Float):
            return builder.add(total, builder.mul(a, b))
        return builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))

    return total(total, total, total), codegen


@intrinsic
def sum_of_lanes(typingctx, a):  # type: ignore[no-untyped-def]
    """The sum of all lanes: halves are added, then their halves."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        add = builder.fadd if isinstance(a.dtype, types.Float) else builder.add
        return _folded(builder, a, args[0], add)

    return a.dtype(a), codegen


@intrinsic
def store_sums(typingctx, out, start, several):  # type: ignore[no-untyped-def]
    """Writes the sum of each of several lanes to the elements of the contiguous vector ``out`` from ``start`` on.

    ``several`` is a tuple of 1, 2, 4 or 8 lanes. Where lanes are added up alone, half of them have no work after the
    first addition, and three quarters after the second. Here an addition makes one of two: their lower halves are
    added to their upper halves, and the two results lie side by side. So seven additions make one of eight, in which
    each has an eighth of the lanes. These are folded on, still all at once.
    """
    lanes = several.dtype

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values = [builder.extract_value(args[2], index) for index in range(several.count)]
        add = builder.fadd if isinstance(lanes.dtype, types.Float) else builder.add
        width = lanes.count  # of the lanes that have one sum
        while width > 1:
            pairs = zip(values[::2], values[1::2], strict=True) if len(values) > 1 else [values * 2]
            half = width // 2
            lower = [lane for lane in range(2 * lanes.count) if lane % width < half]
            upper = [lane + half for lane in lower]
            values = [add(_chosen(builder, a, b, lower), _chosen(builder, a, b, upper)) for a, b in pairs]
            width = half
        sums = _chosen(builder, values[0], values[0], range(several.count))
        data = context.make_array(out)(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), sums.type.as_pointer())
        builder.store(sums, pointer, align=out.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(out, types.intp, several), codegen


def _chosen(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    """The lanes of a, then of b, that have these numbers."""
    return builder.shuffle_vector(a, b, ir.VectorType(ir.IntType(32), len(lanes))(list(lanes)))


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A pointer to the lanes of the first argument, an array, that start at the second."""
    array = signature.args[0]
    data = context.make_array(array)(context, builder, args[0]).data
    kind = context.get_value_type(Lanes(array.dtype))
    return builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())


def _inside(builder: Any, count: Any, lanes: int) -> Any:
    """For each of the lanes whether it is one of the first ``count``."""
    numbers = ir.VectorType(ir.IntType(32), lanes)(list(range(lanes)))
    return builder.icmp_signed("<", numbers, in_all(builder, builder.trunc(count, ir.IntType(32)), lanes))


def _suffix(lanes: Lanes) -> str:
    """The suffix that LLVM adds to the name of an intrinsic for lanes."""
    return f"v{lanes.count}{'f' if isinstance(lanes.dtype, types.Float) else 'i'}{lanes.dtype.bitwidth}"


def _larger(builder: Any, lanes: Any, a: Any, b: Any) -> Any:
    if isinstance(lanes.dtype, types.Float):
        return builder.select(builder.fcmp_ordered(">", b, a), b, a)
    compare = builder.icmp_signed if lanes.dtype.signed else builder.icmp_unsigned
    return builder.select(compare(">", b, a), b, a)


def _folded(builder: Any, lanes: Any, value: Any, combine: Any) -> Any:
    """Combines the upper half of the lanes with the lower half, until one lane is left."""
    width = lanes.count
    while width > 1:
        width //= 2
        value = combine(*(_chosen(builder, value, value, range(start, start + width)) for start in (0, width)))
    return builder.extract_element(value, ir.IntType(32)(0))


def in_all(builder: Any, number: Any, count: Any) -> Any:
    """A number in each of ``count`` lanes."""
    kind = ir.VectorType(number.type, count)
    one = builder.insert_element(kind(ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, kind(ir.Undefined), ir.VectorType(ir.IntType(32), count)(None))


def _bits(builder: Any, truths: Any, count: Any) -> Any:
    """Truth values as bits, lane 0 in the lowest."""
    return builder.bitcast(truths, ir.IntType(count))
