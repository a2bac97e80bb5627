"""Sums rows of CSR matrices in Numba-CUDA kernels whose blocks keep a table of x in shared memory.

A non-zero needs an element of x from a place that nobody can foresee. From the L2 cache that takes a request of its
own, and these requests limit the kernels of :mod:`suites.kernels.numba_cuda.sparse_blocks`. Shared memory answers the
32 lanes of a warp within a few cycles. So each block first copies a part of x to shared memory, the *table*, and then
goes through many rows. As many blocks are launched as run at once.

* :func:`hold_elements` copies the first elements of x. The others are loaded as before (:func:`element_of`).
* :func:`hold_bits` makes a bit of each element of a vector of flags (:func:`is_set`).

A lane waits for the indices of its terms, and then for their elements of x. So :func:`row_sums_with_table` loads the
first terms of the next row before it waits for the elements of this row (:class:`Stages`).

Places in the matrix have 32 bits here, as in ``indptr``: that halves the instructions for an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from suites.kernels.numba_cuda.blocks import LONG, cuda, device, load, roomy_kernel, store
from suites.kernels.numba_cuda.device_facts import gpu_facts
from suites.kernels.numba_cuda.sparse_blocks import streamed
from suites.kernels.numba_cuda.vectors import aligned
from suites.kernels.numba_cuda.warps import WARP, WARPS, place_in_block, sum_of_lanes

__all__ = [
    "WORD",
    "Stages",
    "TableRows",
    "bytes_of_bits",
    "bytes_of_elements",
    "element_of",
    "four_places",
    "four_streamed",
    "four_within",
    "hold_bits",
    "hold_elements",
    "is_set",
    "row_sums_with_table",
    "second_four",
    "streamed_if",
]

FLAGS = 16
"""Flags in a word of a table of bits: as many as one load of 16 bytes has."""

WORD = np.dtype(np.uint16)
"""The elements of a table of bits."""

TERMS = 8
"""Terms of a row that a lane has under way at once."""

_FLAG_BITS = 4


# The table of a block. All its threads call these functions, and then wait at a barrier.


@device
def threads_of_block():
    """How many threads a block of two dimensions has."""
    return np.uint64(cuda.blockDim.x) * np.uint64(cuda.blockDim.y)


@device
def hold_elements(table, x):
    """Copies the first elements of x, as many as the table has room for. A thread has eight loads under way."""
    count = min(np.uint64(table.size), np.uint64(x.size))
    step = threads_of_block()
    i = place_in_block()
    while i + step * np.uint64(7) < count:
        further = i + step * np.uint64(4)
        near, far = load(x, i, step), load(x, further, step)
        store(table, i, step, near)
        store(table, further, step, far)
        i += step * np.uint64(8)
    while i < count:
        table[i] = x[i]
        i += step


def flags_in_word(flags, i):
    """A word whose bits, from the lowest, are FLAGS elements of an ``aligned`` array from i on, a multiple of FLAGS.

    The GPU loads 16 bytes, each 0 or 1. It multiplies four of them by ``2**28 + 2**21 + 2**14 + 2**7``, which moves
    byte b to bit 28 + b, and no two bytes to one place.
    """
    return np.uint32(sum(bool(flags[i + np.uint64(k)]) << k for k in range(FLAGS)))


@device
def hold_bits(table, flags):
    """Makes a bit of each flag. The table has a word for each FLAGS of them."""
    size, shift = np.uint64(flags.size), np.uint64(_FLAG_BITS)
    whole = size >> shift
    step = threads_of_block()
    i = place_in_block()
    if aligned(flags):
        while i + step * np.uint64(3) < whole:
            i1, i2, i3 = i + step, i + step * np.uint64(2), i + step * np.uint64(3)
            a, b = flags_in_word(flags, i << shift), flags_in_word(flags, i1 << shift)
            c, d = flags_in_word(flags, i2 << shift), flags_in_word(flags, i3 << shift)
            table[i], table[i1], table[i2], table[i3] = a, b, c, d
            i += step * np.uint64(4)
        while i < whole:
            table[i] = flags_in_word(flags, i << shift)
            i += step
    while i << shift < size:
        word = np.uint32(0)
        for k in range(FLAGS):
            j = (i << shift) + np.uint64(k)
            if j < size and flags[j]:
                word = np.uint32(word | np.uint32(1 << k))
        table[i] = word
        i += step


@device
def element_of(x, table, index):
    """Element ``index`` of x: from the table if it is there.

    Both loads happen, for there is no branch. The one that does not count is of an element that all lanes share.
    """
    i, held = np.uint32(index), np.uint32(min(np.uint64(table.size), np.uint64(x.size)))
    last = np.uint32(np.uint64(x.size) - np.uint64(1))
    near, far = table[min(i, np.uint32(held - np.uint32(1)))], x[max(i, min(held, last))]
    return near if i < held else far


@device
def is_set(table, index):
    """Whether the bit of flag ``index`` is set."""
    i = np.uint32(index)
    word = np.uint32(table[i >> np.uint32(_FLAG_BITS)])
    return np.uint32(np.uint32(word >> np.uint32(i & np.uint32(FLAGS - 1))) & np.uint32(1)) != np.uint32(0)


# Terms of a row, four at a time.


@device
def four_places(k, step):
    """Four places, ``step`` apart from k on."""
    k1, k2 = np.uint32(k + step), np.uint32(k + step * np.uint32(2))
    return k, k1, k2, np.uint32(k2 + step)


@device
def second_four(k, step):
    """The place after four."""
    return np.uint32(k + step * np.uint32(4))


@device
def four_within(places, stop):
    """Tells which places are before the end."""
    return places[0] < stop, places[1] < stop, places[2] < stop, places[3] < stop


@device
def four_streamed(array, places, stop):
    """The elements of four places, which no thread loads again. Beyond the end it is the last one before it.

    Without a place before the end it is element 0.
    """
    last = np.uint32(max(stop, np.uint32(1)) - np.uint32(1))
    return (
        streamed(array, min(places[0], last)),
        streamed(array, min(places[1], last)),
        streamed(array, min(places[2], last)),
        streamed(array, min(places[3], last)),
    )


def streamed_if(array, i, wanted):
    """Element i as ``streamed``; zero, without a request to memory and without a branch, if it is not wanted."""
    return array[i] if wanted else array.dtype.type(0)


# Kernels and their launches.


class Stages(NamedTuple):
    """The steps of a kernel for TERMS terms of a row: device functions, each of which can wait for the one before.

    Attributes:
        fetch: Of ``(data, indices, first, stop, step)``: loads the values and indices of the terms ``first``, ``first +
            step`` and so on, before ``stop``. It also runs where there are none.
        look_up: Of ``(data, x, table, fetched, first, stop, step)``: loads the elements of x at the indices.
        add_up: Of ``(data, fetched, found, first, stop, step)``: sums these terms.
    """

    fetch: Any
    look_up: Any
    add_up: Any


def row_sums_with_table(hold: Any, stages: Stages, threads: int, blocks: int, word: Any = None) -> Any:
    """Makes the kernel of ``(data, indices, indptr, x, out)`` that sums the rows of a CSR matrix times x.

    A few lanes share a row, and nobody waits for the lanes of other rows. The block shares rows that are far longer in
    a second loop, which only blocks with such rows enter. The matrix must have a non-zero.

    Args:
        hold: The device function of ``(table, x)`` that fills the table, the dynamic shared memory of a block.
        stages: The steps for terms.
        threads: Threads of a block.
        blocks: How many blocks run at once on a multiprocessor.
        word: The dtype of the table; None if x has the same.
    """
    fetch, look_up, add_up = stages
    of_other_dtype = word is not None

    @device
    def part(data, indices, x, table, first, stop, step):
        total = data.dtype.type(0)
        k = first
        while k < stop:
            fetched = fetch(data, indices, k, stop, step)
            total += add_up(data, fetched, look_up(data, x, table, fetched, k, stop, step), k, stop, step)
            k = np.uint32(k + step * np.uint32(TERMS))
        return total

    @roomy_kernel(threads, blocks)
    def row_sums(data, indices, indptr, x, out):
        shared = cuda.shared.array(WARPS, out.dtype)
        table = cuda.shared.array(0, word) if of_other_dtype else cuda.shared.array(0, x.dtype)
        rows, lanes, height = np.uint32(out.size), np.uint32(cuda.blockDim.x), np.uint32(cuda.blockDim.y)
        lane, limit = np.uint32(cuda.threadIdx.x), np.uint32(lanes * np.uint32(LONG))
        block, stride = np.uint32(np.uint32(cuda.blockIdx.x) * height), np.uint32(np.uint32(cuda.gridDim.x) * height)
        first, row = block, np.uint32(block + np.uint32(cuda.threadIdx.y))
        start, stop = ends_of_row(indptr, row, rows)
        next_start, next_stop = ends_of_row(indptr, np.uint32(row + stride), rows)
        fetched = fetch(data, indices, np.uint32(start + lane), stop, lanes)
        hold(table, x)
        cuda.syncthreads()
        some_long = 0
        while first < rows:
            is_long = np.uint32(stop - start) > limit
            k = np.uint32(start + lane)
            entries = look_up(data, x, table, fetched, k, stop, lanes)
            fetched_next = fetch(data, indices, np.uint32(next_start + lane), next_stop, lanes)
            then_start, then_stop = ends_of_row(indptr, np.uint32(row + stride * np.uint32(2)), rows)
            total = add_up(data, fetched, entries, k, stop, lanes)
            if not is_long:
                total += part(data, indices, x, table, np.uint32(k + lanes * np.uint32(TERMS)), stop, lanes)
            total = sum_of_lanes(shared, total, cuda.blockDim.x)
            if lane == np.uint32(0) and row < rows and not is_long:
                out[row] = total
            if is_long:
                some_long = 1
            first, row = np.uint32(first + stride), np.uint32(row + stride)
            start, stop, next_start, next_stop = next_start, next_stop, then_start, then_stop
            fetched = fetched_next
        if cuda.syncthreads_or(some_long):
            queue = cuda.shared.array(threads, np.uint32)
            queued = cuda.shared.array(1, np.int32)
            place = np.uint32(place_in_block())
            first = block
            while first < rows:
                # Each thread looks at another row of the block.
                row = np.uint32(first + lane * stride + np.uint32(cuda.threadIdx.y))
                start, stop = ends_of_row(indptr, row, rows)
                if place == np.uint32(0):
                    queued[0] = 0
                cuda.syncthreads()
                if np.uint32(stop - start) > limit:
                    queue[cuda.atomic.add(queued, 0, 1)] = row
                cuda.syncthreads()
                for n in range(queued[0]):
                    start, stop = ends_of_row(indptr, queue[n], rows)
                    total = part(data, indices, x, table, np.uint32(start + place), stop, np.uint32(threads))
                    total = sum_of_lanes(shared, total, threads)
                    if place == np.uint32(0):
                        out[queue[n]] = total
                first = np.uint32(first + lanes * stride)

    return row_sums


@device
def ends_of_row(indptr, row, rows):
    """Returns where a row begins and ends; zeros for a row that the matrix does not have."""
    start = stop = np.uint32(0)
    if row < rows:
        start, stop = np.uint32(indptr[row]), np.uint32(indptr[np.uint32(row + np.uint32(1))])
    return start, stop


class TableRows(NamedTuple):
    """A kernel of :func:`row_sums_with_table` and its launch, for matrices where it takes less time.

    Attributes:
        kernel: The kernel.
        threads: Threads of a block.
        blocks: How many blocks run at once on a multiprocessor.
        table_bytes: Takes x. Returns the size of its table in bytes, None if there is no room for it.
        least_uses: How often each block must look up an element of x, on average, so that a table pays.
    """

    kernel: Any
    threads: int
    blocks: int
    table_bytes: Callable[[Any], int | None]
    least_uses: float

    def kernel_or(self, other: Any) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
        """The ``select`` of a ``CudaKernel``: this kernel where it pays, else another one."""
        return lambda inputs, outs: self.kernel if self.pays(inputs) else other

    def launch_or(self, other: Callable[..., Any]) -> Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]:
        """The ``launch`` of a ``CudaKernel``, as for :meth:`kernel_or`."""
        return lambda inputs, outs: self.launch(inputs, outs) if self.pays(inputs) else other(inputs, outs)

    def pays(self, inputs: Sequence[Any]) -> bool:
        """Whether the blocks use a table often enough."""
        data, x = inputs[0], inputs[3]
        uses = data.shape[0] / max(x.shape[0] * self.blocks * gpu_facts().processors, 1)
        return data.shape[0] > 0 and uses >= self.least_uses and self.table_bytes(x) is not None

    def launch(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        """As many blocks as run at once, if so many have rows. A row of mean length keeps its lanes busy once."""
        rows, terms = outs[0].shape[0], inputs[0].shape[0]
        lanes = 1
        while lanes < WARP and lanes * TERMS < terms / max(rows, 1):
            lanes *= 2
        height = self.threads // lanes
        grid = min(-(-rows // height), self.blocks * gpu_facts().processors)
        return {"grid": grid, "block": (lanes, height), "shared_mem": self.table_bytes(inputs[3])}


def bytes_of_elements(x: Any) -> int:
    """The size of a table of elements: all of x, or as much as leaves room for the first cache.

    A load keeps a line of that cache while it is under way. On an H200 a table of 227 KB left 28 KB, and took 1.3 times
    as long as one of 194 KB, which leaves 60.
    """
    most = gpu_facts().shared_bytes - _FOR_FIRST_CACHE
    itemsize: int = np.dtype(x.dtype).itemsize
    return min(int(x.shape[0]), most // itemsize) * itemsize


_FOR_FIRST_CACHE = 38 * 1024
"""The shared memory that a table leaves free: 32 KB, the step by which the GPU resizes the cache, and _OTHER_BYTES."""


def bytes_of_bits(blocks: int) -> Callable[[Any], int | None]:
    """Makes the function that returns the size of a table of bits; None if so many blocks have no room for theirs."""

    def table_bytes(flags: Any) -> int | None:
        size = -(-flags.shape[0] // FLAGS) * WORD.itemsize
        return size if (size + _OTHER_BYTES) * blocks <= gpu_facts().shared_bytes else None

    return table_bytes


_OTHER_BYTES = 6 * 1024
"""More than a block of 1024 threads has of shared memory beside its table: its queue, sums, and 1 KB of the system."""


if cuda is not None and hasattr(cuda, "extending"):  # the simulator calls the Python functions
    from llvmlite import ir
    from numba.cuda import types

    _GLOBAL = 1
    """LLVM's number of the global memory of NVIDIA's GPUs."""

    _INTEGER = ir.IntType(32)
    _FOUR_FLAGS, _TO_BIT_28 = 0x01010101, 1 << 28 | 1 << 21 | 1 << 14 | 1 << 7

    def _global_address(context, builder, array_type, array, index):
        address = builder.gep(context.make_array(array_type)(context, builder, array).data, [index])
        return builder.addrspacecast(address, context.get_data_type(array_type.dtype).as_pointer(_GLOBAL), "global")

    @cuda.extending.intrinsic
    def _flags_in_word(typing_context, flags, i):
        def generate(context, builder, signature, args):
            address = _global_address(context, builder, signature.args[0], *args)
            vector = ir.VectorType(_INTEGER, FLAGS // 4)
            words = builder.load(builder.bitcast(address, vector.as_pointer(_GLOBAL)), align=FLAGS)
            word = ir.Constant(_INTEGER, 0)
            for k in range(FLAGS // 4):
                four = builder.extract_element(words, ir.Constant(_INTEGER, k))
                moved = builder.mul(
                    builder.and_(four, ir.Constant(_INTEGER, _FOUR_FLAGS)), ir.Constant(_INTEGER, _TO_BIT_28)
                )
                bits = builder.lshr(moved, ir.Constant(_INTEGER, 28))
                word = builder.or_(word, builder.shl(bits, ir.Constant(_INTEGER, 4 * k)))
            return word

        return types.uint32(flags, types.uint64), generate

    @cuda.extending.intrinsic
    def _streamed_if(typing_context, array, i, wanted):
        def generate(context, builder, signature, args):
            kind = context.get_value_type(signature.return_type)
            bits = signature.return_type.bitwidth
            word, letter = ir.IntType(bits), "r" if bits == 32 else "l"
            place = builder.zext(args[1], ir.IntType(64))
            address = _global_address(context, builder, signature.args[0], args[0], place)
            address = builder.bitcast(address, word.as_pointer(_GLOBAL))
            flag = builder.zext(args[2], _INTEGER)
            code = f"{{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b{bits} $0, 0; @p ld.global.cs.b{bits} $0, [$1]; }}"
            function = ir.FunctionType(word, [address.type, _INTEGER])
            return builder.bitcast(builder.asm(function, code, f"=&{letter},l,r", [address, flag], False), kind)

        return array.dtype(array, types.uint32, types.boolean), generate

    @cuda.extending.overload(flags_in_word)
    def _overload_flags(flags, i):
        return lambda flags, i: _flags_in_word(flags, i)

    @cuda.extending.overload(streamed_if)
    def _overload_streamed_if(array, i, wanted):
        return lambda array, i, wanted: _streamed_if(array, i, wanted)
