"""Scans vectors in one pass in Numba-CUDA kernels: a block learns the sum of all elements before its tile as it runs.

A scan of three passes reads its input twice. In one pass, each block adds up its tile, publishes the sum, and waits for
the sums that the blocks before it have published (*decoupled look-back*: Merrill and Garland, Single-pass Parallel
Prefix Scan with Decoupled Look-back, NVIDIA technical report NVR-2016-002).

**Progress.** A GPU starts the blocks of a grid in no certain order. So a block takes its tile by a ticket, when it
already runs: all tiles before are finished or have a running block, and a block waits for earlier tiles only.

**The same bits in every run.** In the published algorithm a block adds up the sums that its predecessors have
published so far, so the order of additions varies from run to run. Here it is fixed by the number of the tile. 32
tiles are a group, and 32 groups a region. A block adds up the tiles of its group before it, the groups of its
region before that, and the sum of all earlier regions::

    before = region_prefix + (group + ... + group) + (tile + ... + tile)

The last block of a group publishes the sum of the group, as soon as the tiles of the group are there. The last block of
a region publishes the sum of all elements up to there. So a block waits for two steps after the slowest tile before it,
and a chain has a link per 1024 tiles. The 32 lanes of a warp each wait for one sum.

**Publishing without fences.** A sum and the mark that it is there must appear together. GPUs write 64 bits at once, so
a word holds 32 bits of a sum in its lower half and the mark in its upper half. A sum of 64 bits has two words, each
with a mark of its own: which of them appears first does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, kernel
from suites.kernels.numba_cuda.launches import let_next_begin
from suites.kernels.numba_cuda.warps import WARP, shuffle_from, shuffle_up, shuffle_xor

_TICKET = 0
"""The word that counts the tiles that blocks have taken. The published sums follow."""

_MARK = 1 << 32
_HALF = 0xFFFFFFFF


def look_back_words(tiles: int, dtype: Any) -> int:
    """Words of 64 bits that the blocks of a scan share: an array of uint64, cleared by :func:`clear_words`."""
    groups = -(-tiles // WARP)
    return 1 + (tiles + groups + -(-groups // WARP)) * (int(np.dtype(dtype).itemsize) // 4)


def clear_grid(words: int) -> int:
    """Blocks of :func:`clear_words`."""
    return -(-words // THREADS)


@kernel
def clear_words(words):
    """Sets all words to zero: no tile is taken and no sum is there."""
    let_next_begin()
    i = np.uint64(cuda.grid(1))
    if i < np.uint64(words.size):
        words[i] = np.uint64(0)


def plus(a, b):
    """The sum in the type of ``a``: Numba adds integers of 32 bits in 64."""
    with np.errstate(over="ignore"):
        return a + b


def publish(words, place, value):
    """Publishes a value of 32 or 64 bits as the sum number ``place``."""
    halves = np.array([value]).view(np.uint32)
    for k, half in enumerate(halves):
        words[1 + int(place) * halves.size + k] = np.uint64(_MARK | int(half))


def seen(words, place, like):
    """Begins to read the sum number ``place``, a value of the type of ``like``, for :func:`awaited`.

    A read takes a microsecond when memory is busy. Several that have begun before the first is awaited take as long as
    one.
    """
    return None


def awaited(words, place, like, first_read):
    """Waits for the sum number ``place``, a value of the type of ``like``, and returns it.

    Args:
        words: The memory that the blocks share.
        place: The number of the sum.
        like: Any value of the type.
        first_read: The result of :func:`seen` for it.
    """
    count = like.dtype.itemsize // 4
    first = 1 + int(place) * count
    halves = [int(words[first + k]) for k in range(count)]
    assert all(half >= _MARK for half in halves), "in the simulator, blocks run in the order of their tiles"
    return np.array([half & _HALF for half in halves], np.uint32).view(like.dtype)[0]


if cuda is not None and hasattr(cuda, "extending"):  # the simulator calls the Python functions
    from llvmlite import ir
    from numba.cuda import types

    _WORD = ir.IntType(64)

    def _address(context, builder, signature, args):
        words = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(builder.gep(words.data, [args[1]]), _WORD)

    @cuda.extending.intrinsic
    def _read(typing_context, words, i):
        """Reads a word that another block may write at the same time, from where all blocks see it."""

        def generate(context, builder, signature, args):
            kind = ir.FunctionType(_WORD, [_WORD])
            instruction = "ld.relaxed.gpu.global.u64 $0, [$1];"
            address = _address(context, builder, signature, args)
            return builder.asm(kind, instruction, "=l,l,~{memory}", [address], side_effect=True)

        return types.uint64(words, types.uint64), generate

    @cuda.extending.intrinsic
    def _write(typing_context, words, i, word):
        """Writes a word at once, to where all blocks see it."""

        def generate(context, builder, signature, args):
            kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
            instruction = "st.relaxed.gpu.global.u64 [$0], $1;"
            address = _address(context, builder, signature, args)
            builder.asm(kind, instruction, "l,l,~{memory}", [address, args[2]], side_effect=True)
            return context.get_dummy_value()

        return types.void(words, types.uint64, types.uint64), generate

    @cuda.extending.intrinsic
    def _bits(typing_context, value):
        """The bits of a value of 32 or 64 bits, as a word."""

        def generate(context, builder, signature, args):
            width = signature.args[0].bitwidth
            return builder.zext(builder.bitcast(args[0], ir.IntType(width)), _WORD)

        return types.uint64(value), generate

    @cuda.extending.intrinsic
    def _value(typing_context, bits, like):
        """The value of the type of ``like`` with these bits."""

        def generate(context, builder, signature, args):
            result = signature.return_type
            number = builder.trunc(args[0], ir.IntType(result.bitwidth))
            return builder.bitcast(number, context.get_value_type(result))

        return like(types.uint64, like), generate

    @cuda.extending.overload(plus)
    def _overload_plus(a, b):
        kind = a
        return lambda a, b: kind(a + b)

    @cuda.extending.overload(publish)
    def _overload_publish(words, place, value):
        def of_32_bits(words, place, value):
            _write(words, np.uint64(1) + np.uint64(place), np.uint64(_MARK) | _bits(value))

        def of_64_bits(words, place, value):
            bits, first = _bits(value), np.uint64(1) + np.uint64(place) * np.uint64(2)
            _write(words, first, np.uint64(_MARK) | (bits & np.uint64(_HALF)))
            _write(words, first + np.uint64(1), np.uint64(_MARK) | (bits >> np.uint64(32)))

        return of_32_bits if value.bitwidth == 32 else of_64_bits

    @cuda.extending.overload(seen)
    def _overload_seen(words, place, like):
        def of_32_bits(words, place, like):
            return _read(words, np.uint64(1) + np.uint64(place))

        def of_64_bits(words, place, like):
            first = np.uint64(1) + np.uint64(place) * np.uint64(2)
            return _read(words, first), _read(words, first + np.uint64(1))

        return of_32_bits if like.bitwidth == 32 else of_64_bits

    @cuda.extending.overload(awaited)
    def _overload_awaited(words, place, like, first_read):
        def of_32_bits(words, place, like, first_read):
            word = first_read
            while word < np.uint64(_MARK):
                word = _read(words, np.uint64(1) + np.uint64(place))
            return _value(word & np.uint64(_HALF), like)

        def of_64_bits(words, place, like, first_read):
            low, high = first_read
            first = np.uint64(1) + np.uint64(place) * np.uint64(2)
            while low < np.uint64(_MARK) or high < np.uint64(_MARK):
                low, high = _read(words, first), _read(words, first + np.uint64(1))
            return _value((low & np.uint64(_HALF)) | (high << np.uint64(32)), like)

        return of_32_bits if like.bitwidth == 32 else of_64_bits


@device
def taken_tile(words, shared):
    """The tile of this block, the next one that no block has taken. ``shared`` has an element of int64."""
    if cuda.threadIdx.x == 0:
        shared[0] = cuda.atomic.add(words, _TICKET, np.uint64(1))
    cuda.syncthreads()
    return np.uint64(shared[0])


@device
def sum_of_warp(value):
    """The sum of the values of all lanes of a warp."""
    reach = WARP // 2
    while reach > 0:
        value = plus(value, shuffle_xor(value, reach))
        reach //= 2
    return value


@device
def sums_up_to_lane(value):
    """The sum of the values of this lane and all lower ones of its warp."""
    lane, reach = cuda.laneid, 1
    while reach < WARP:
        lower = shuffle_up(value, reach)
        if lane >= reach:
            value = plus(value, lower)
        reach *= 2
    return value


@device
def sum_before(words, tile, tiles, total, nothing):
    """Returns the sum of all tiles before one, and publishes the sums of its group and region if it ends them.

    One whole warp of a block calls it, after one of its threads has published the sum of the tile by :func:`publish`.

    Args:
        words: The memory that the blocks share, see :func:`look_back_words`.
        tile: The tile of this block.
        tiles: How many there are.
        total: The sum of the tile, the same in all lanes.
        nothing: Zero in the type of the sum.
    """
    width, one = np.uint64(WARP), np.uint64(1)
    lane, group, place = np.uint64(cuda.laneid), tile // width, tile % width
    region, spot = group // width, group % width
    groups = np.uint64(tiles)
    regions = groups + (groups + width - one) // width
    # A lane without a sum to read reads one of its own block, and does not wait for it.
    of_tile = seen(words, tile - place + min(lane, place), nothing)
    of_other_group = seen(words, groups + group - spot + min(lane, spot), nothing)
    of_region = seen(words, regions + region - min(region, one), nothing)
    of_tiles = nothing
    if lane < place:
        of_tiles = awaited(words, tile - place + lane, nothing, of_tile)
    of_tiles = sum_of_warp(of_tiles)
    of_group = plus(of_tiles, total)
    if place == width - one and lane == np.uint64(0):
        publish(words, groups + group, of_group)
    of_groups = nothing
    if lane < spot:
        of_groups = awaited(words, groups + group - spot + lane, nothing, of_other_group)
    before = sum_of_warp(of_groups)
    if region > np.uint64(0):
        before = plus(awaited(words, regions + region - one, nothing, of_region), before)
    if place == width - one and spot == width - one and lane == np.uint64(0):
        publish(words, regions + region, plus(before, of_group))
    return plus(before, of_tiles)


@device
def last_lane(value):
    """The value of the last lane of a warp."""
    return shuffle_from(value, WARP - 1)
