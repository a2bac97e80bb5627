"""Lets Numba-CUDA kernels keep vectors in shared memory, and fill it without registers.

A block that has to wait with its elements for other blocks keeps memory busy only if many blocks can wait at once.
Registers also have to hold the results of a thread. Shared memory holds 227 KB of elements for each multiprocessor of
an H100, and ``cp.async`` (PTX ISA, since compute capability 8.0) fills it: the thread names two addresses, and has
registers neither for the elements nor for waiting::

    kept = cuda.shared.array(SIZE, x.dtype, KEPT_ALIGNMENT)
    begin_copy(kept, place, x, i)  # NEIGHBOURS elements
    await_copies()                 # those that this thread has begun
    v = kept_neighbours(kept, place)

Each thread sees its own copies then, other threads after a barrier. Indices are multiples of NEIGHBOURS, and ``x`` is
``aligned``, as in :mod:`suites.kernels.numba_cuda.vectors`.
"""

from __future__ import annotations

from suites.kernels.numba_cuda.blocks import cuda
from suites.kernels.numba_cuda.vectors import (
    NEIGHBOURS,
    VECTOR_BYTES,
    neighbours,
    store_neighbours,
)

_IS_COMPILED = cuda is not None and hasattr(cuda, "extending")

KEPT_ALIGNMENT = VECTOR_BYTES if _IS_COMPILED else None
"""The alignment of an array in shared memory that has vectors. The simulator knows none."""


def begin_copy(array, place, x, i):
    """Begins to copy NEIGHBOURS elements from element i of an array to ``place`` of one in shared memory."""
    store_neighbours(array, place, neighbours(x, i))


def await_copies():
    """Waits for all copies that this thread has begun."""


def kept_neighbours(array, place):
    """NEIGHBOURS elements of an array in shared memory."""
    return neighbours(array, place)


def keep_neighbours(array, place, values):
    """Stores NEIGHBOURS values to an array in shared memory."""
    store_neighbours(array, place, values)


if _IS_COMPILED:  # the simulator calls the Python functions
    from llvmlite import ir
    from numba.cuda import types

    from suites.kernels.numba_cuda.architectures import is_at_least
    from suites.kernels.numba_cuda.vectors import GLOBAL, SHARED, element_address, load_vector, store_vector

    _LEAST_CAPABILITY = 80
    _WORD = ir.IntType(64)

    @cuda.extending.intrinsic
    def _begin_copy(typing_context, array, place, x, i):
        def generate(context, builder, signature, args):
            kept_type, _, array_type, _ = signature.args
            per_copy = VECTOR_BYTES * 8 // array_type.dtype.bitwidth
            with builder.if_else(is_at_least(builder, _LEAST_CAPABILITY)) as (new, old):
                with new:
                    for first in range(0, NEIGHBOURS, per_copy):
                        offset = ir.Constant(_WORD, first)
                        to, source = builder.add(args[1], offset), builder.add(args[3], offset)
                        target = element_address(context, builder, kept_type, args[0], to, SHARED)
                        origin = element_address(context, builder, array_type, args[2], source, GLOBAL)
                        addresses = builder.ptrtoint(target, ir.IntType(32)), builder.ptrtoint(origin, _WORD)
                        kind = ir.FunctionType(ir.VoidType(), [address.type for address in addresses])
                        instruction = f"cp.async.cg.shared.global [$0], [$1], {VECTOR_BYTES};"
                        builder.asm(kind, instruction, "r,l,~{memory}", addresses, side_effect=True)
                with old:
                    values = load_vector(context, builder, array_type, args[2], args[3], GLOBAL)
                    store_vector(context, builder, kept_type, args[0], args[1], values, SHARED)
            return context.get_dummy_value()

        return types.void(array, types.uint64, x, types.uint64), generate

    @cuda.extending.intrinsic
    def _await_copies(typing_context):
        def generate(context, builder, signature, args):
            with builder.if_then(is_at_least(builder, _LEAST_CAPABILITY)):
                kind = ir.FunctionType(ir.VoidType(), [])
                builder.asm(kind, "cp.async.wait_all;", "~{memory}", [], side_effect=True)
            return context.get_dummy_value()

        return types.void(), generate

    @cuda.extending.intrinsic
    def _kept_neighbours(typing_context, array, place):
        def generate(context, builder, signature, args):
            values = load_vector(context, builder, signature.args[0], args[0], args[1], SHARED)
            return context.make_tuple(builder, signature.return_type, values)

        return types.UniTuple(array.dtype, NEIGHBOURS)(array, types.uint64), generate

    @cuda.extending.intrinsic
    def _keep_neighbours(typing_context, array, place, values):
        def generate(context, builder, signature, args):
            elements = [builder.extract_value(args[2], k) for k in range(NEIGHBOURS)]
            store_vector(context, builder, signature.args[0], args[0], args[1], elements, SHARED)
            return context.get_dummy_value()

        return types.void(array, types.uint64, types.UniTuple(array.dtype, NEIGHBOURS)), generate

    @cuda.extending.overload(begin_copy)
    def _overload_begin(array, place, x, i):
        return lambda array, place, x, i: _begin_copy(array, place, x, i)

    @cuda.extending.overload(await_copies)
    def _overload_await():
        return lambda: _await_copies()

    @cuda.extending.overload(kept_neighbours)
    def _overload_kept(array, place):
        return lambda array, place: _kept_neighbours(array, place)

    @cuda.extending.overload(keep_neighbours)
    def _overload_keep(array, place, values):
        return lambda array, place, values: _keep_neighbours(array, place, values)
