"""Loads and stores neighbouring elements in Numba-CUDA kernels with vector instructions of 16 bytes.

A thread that loads 16 bytes by one instruction has as much under way as one with four loads, for a quarter of the
instructions and addresses. So memory stays busy where a multiprocessor has few threads, or where a thread
computes much with its elements (:mod:`suites.kernels.numba_cuda.blocks` says how much must be under way).

A vector must lie at a multiple of its size, which the compiler cannot know. JAX's buffers begin at such a multiple, but
a slice that XLA passes without copying it may not, nor does each row of a matrix with an odd number of columns. So a
kernel asks :func:`aligned` first, and otherwise loads element by element, as it does with the elements at the end that
fill no vector::

    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        store_neighbours(out, i, neighbours(x, i))
    else:
        while i < stop: ...

Arrays are contiguous and of any rank; an index counts the elements before it in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from suites.kernels.numba_cuda.blocks import LOADS, THREADS, cuda, device, widened

NEIGHBOURS = LOADS
"""Neighbouring elements that are loaded or stored together: 16 bytes of float32, two times 16 bytes of float64."""

VECTOR_BYTES = 16
"""The most bytes of one load, and where an array begins that is :func:`aligned`: at a multiple of this."""


def neighbour_tiles(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel whose threads each take NEIGHBOURS elements of its first output."""
    return {"grid": -(-math.prod(outs[0].shape) // (THREADS * NEIGHBOURS)), "block": THREADS}


@device
def first_neighbour():
    """The first element of this thread, if each thread takes NEIGHBOURS elements in a grid of one dimension."""
    thread = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    return thread * np.uint64(NEIGHBOURS)


@device
def neighbour_tile(size):
    """The first element of this thread, the end of its elements, and whether all NEIGHBOURS of them are within size."""
    first = first_neighbour()
    end = first + np.uint64(NEIGHBOURS)
    return first, min(end, np.uint64(size)), end <= np.uint64(size)


def aligned(x):
    """Whether an array begins at a multiple of VECTOR_BYTES."""
    return x.ctypes.data % VECTOR_BYTES == 0


def neighbours(x, i):
    """NEIGHBOURS elements of an :func:`aligned` array from element i, a multiple of NEIGHBOURS, each ``widened``."""
    flat = x.reshape(-1)
    return flat[i], flat[i + np.uint64(1)], flat[i + np.uint64(2)], flat[i + np.uint64(3)]


def single_neighbours(x, i):
    """Returns :func:`neighbours` by a load for each element: the array and i need no alignment."""
    return neighbours(x, i)


def store_neighbours(out, i, values):
    """Stores NEIGHBOURS values from element i, a multiple of NEIGHBOURS, of an :func:`aligned` array."""
    flat = out.reshape(-1)
    for k in range(NEIGHBOURS):
        flat[i + np.uint64(k)] = values[k]


def store_single_neighbours(out, i, values):
    """Works as :func:`store_neighbours`, by a store for each element: the array and i need no alignment."""
    store_neighbours(out, i, values)


# So the bridge finds out that kernels which use them may work in place.

if cuda is not None and hasattr(cuda, "extending"):  # the simulator calls the Python functions
    from llvmlite import ir
    from numba.cuda import types

    GLOBAL, SHARED = 1, 3
    """LLVM's numbers of the memories of NVIDIA's GPUs. For a generic address the GPU has to find out which it is."""

    def _data(context, builder, array_type, array):
        return context.make_array(array_type)(context, builder, array).data

    def element_address(context, builder, array_type, array, index, memory):
        """The address of an element in a memory."""
        address = builder.gep(_data(context, builder, array_type, array), [index])
        return builder.addrspacecast(address, context.get_data_type(array_type.dtype).as_pointer(memory), "address")

    def _vector_address(context, builder, array_type, array, index, memory, aligned_to):
        """The address of NEIGHBOURS elements as one vector, and its alignment."""
        element = context.get_data_type(array_type.dtype)
        vector = ir.VectorType(element, NEIGHBOURS)
        address = element_address(context, builder, array_type, array, index, memory)
        itemsize = context.get_abi_sizeof(element)
        return builder.bitcast(address, vector.as_pointer(memory)), min(VECTOR_BYTES, aligned_to * itemsize)

    def _place(k):
        return ir.Constant(ir.IntType(32), k)

    def load_vector(context, builder, array_type, array, index, memory, aligned_to=NEIGHBOURS):
        """The values of NEIGHBOURS elements, which begin at a multiple of so many elements."""
        address, multiple = _vector_address(context, builder, array_type, array, index, memory, aligned_to)
        vector = builder.load(address, align=multiple)
        model = context.data_model_manager[array_type.dtype]
        return [model.from_data(builder, builder.extract_element(vector, _place(k))) for k in range(NEIGHBOURS)]

    def store_vector(context, builder, array_type, array, index, values, memory, aligned_to=NEIGHBOURS):
        """Stores NEIGHBOURS values to where a multiple of so many elements begins."""
        address, multiple = _vector_address(context, builder, array_type, array, index, memory, aligned_to)
        model = context.data_model_manager[array_type.dtype]
        vector = ir.Constant(ir.VectorType(context.get_data_type(array_type.dtype), NEIGHBOURS), ir.Undefined)
        for k, value in enumerate(values):
            vector = builder.insert_element(vector, model.as_data(builder, value), _place(k))
        builder.store(vector, address, align=multiple)

    @cuda.extending.intrinsic
    def _aligned(typing_context, x):
        def generate(context, builder, signature, args):
            word = ir.IntType(64)
            address = builder.ptrtoint(_data(context, builder, signature.args[0], args[0]), word)
            rest = builder.and_(address, ir.Constant(word, VECTOR_BYTES - 1))
            return builder.icmp_unsigned("==", rest, ir.Constant(word, 0))

        return types.boolean(x), generate

    def _loader(aligned_to):
        @cuda.extending.intrinsic
        def load(typing_context, x, i):
            def generate(context, builder, signature, args):
                elements = load_vector(context, builder, signature.args[0], args[0], args[1], GLOBAL, aligned_to)
                return context.make_tuple(builder, signature.return_type, elements)

            return types.UniTuple(x.dtype, NEIGHBOURS)(x, types.uint64), generate

        return load

    def _storer(aligned_to):
        @cuda.extending.intrinsic
        def store(typing_context, out, i, values):
            def generate(context, builder, signature, args):
                elements = [builder.extract_value(args[2], k) for k in range(NEIGHBOURS)]
                store_vector(context, builder, signature.args[0], args[0], args[1], elements, GLOBAL, aligned_to)
                return context.get_dummy_value()

            return types.void(out, types.uint64, types.UniTuple(out.dtype, NEIGHBOURS)), generate

        return store

    _neighbours, _single_neighbours = _loader(NEIGHBOURS), _loader(1)
    _store_neighbours, _store_single_neighbours = _storer(NEIGHBOURS), _storer(1)

    @cuda.extending.overload(aligned)
    def _overload_aligned(x):
        return lambda x: _aligned(x)

    def _overload_load(function, instruction):
        @cuda.extending.overload(function)
        def overload_load(x, i):
            if isinstance(x.dtype, types.Complex):  # LLVM has no vectors of pairs
                return neighbours

            def load(x, i):
                a, b, c, d = instruction(x, i)
                return widened(a), widened(b), widened(c), widened(d)

            return load

    _overload_load(neighbours, _neighbours)
    _overload_load(single_neighbours, _single_neighbours)

    def _overload_store(function, instruction):
        @cuda.extending.overload(function)
        def overload_store(out, i, values):
            kind = out.dtype
            if isinstance(kind, types.Complex):
                return store_neighbours
            if isinstance(values, types.UniTuple) and values.dtype == kind:
                return lambda out, i, values: instruction(out, i, values)

            def store(out, i, values):
                instruction(out, i, (kind(values[0]), kind(values[1]), kind(values[2]), kind(values[3])))

            return store

    _overload_store(store_neighbours, _store_neighbours)
    _overload_store(store_single_neighbours, _store_single_neighbours)
