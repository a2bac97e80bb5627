"""Kernels of cumsum in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, roomy_kernel
from suites.kernels.numba_cuda.launches import await_launch
from suites.kernels.numba_cuda.shared import KEPT_ALIGNMENT, await_copies, begin_copy, keep_neighbours, kept_neighbours
from suites.kernels.numba_cuda.vectors import NEIGHBOURS, aligned, store_neighbours
from suites.kernels.numba_cuda.warps import WARP, WARPS, shuffle_up
from suites.ops.cumsum.look_back import (
    clear_grid,
    clear_words,
    last_lane,
    look_back_words,
    plus,
    publish,
    sum_before,
    sum_of_warp,
    sums_up_to_lane,
    taken_tile,
)

SCAN_THREADS = 128
"""Threads of a block."""

ROW = WARP * NEIGHBOURS
"""Elements of a row: a vector of each lane of a warp."""

TILE = SCAN_THREADS * 4 * NEIGHBOURS
"""Elements that a block takes: four rows for each of its warps."""

LARGE_TILE = 2 * TILE
"""Elements that a block takes if they have 4 bytes: as much memory as a tile of 8 bytes."""

ROOM = 12
"""Blocks of a multiprocessor: shared memory holds so many tiles of 16 KB, and each thread has 40 registers."""


@device
def vector_sum(v):
    return plus(plus(v[0], v[1]), plus(v[2], v[3]))


@device
def added(before, v):
    return plus(before, v[0]), plus(before, v[1]), plus(before, v[2]), plus(before, v[3])


@device
def keep_padded(elements, place, x, i):
    """Copies NEIGHBOURS elements one by one; zeros beyond the end."""
    size, absent = np.uint64(x.size), x.dtype.type(0)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    elements[place] = x[i] if i < size else absent
    elements[place + one] = x[i + one] if i + one < size else absent
    elements[place + two] = x[i + two] if i + two < size else absent
    elements[place + three] = x[i + three] if i + three < size else absent


@device
def store_padded(out, i, v):
    """Stores NEIGHBOURS values from element i, those within the size."""
    size, one, two, three = np.uint64(out.size), np.uint64(1), np.uint64(2), np.uint64(3)
    if i < size:
        out[i] = v[0]
    if i + one < size:
        out[i + one] = v[1]
    if i + two < size:
        out[i + two] = v[2]
    if i + three < size:
        out[i + three] = v[3]


# Rows of a thread: functions that are made of two for half of the rows, so that there are no loops. Numba would leave
# them as loops, in which the shuffles of a row wait until the row before is scanned.


def begin_rows_of(rows):
    if rows == 1:
        return begin_copy
    half, distance = begin_rows_of(rows // 2), rows // 2 * ROW

    @device
    def begin_rows(elements, place, x, i):
        half(elements, place, x, i)
        half(elements, place + np.uint64(distance), x, i + np.uint64(distance))

    return begin_rows


def sum_rows_of(rows):
    if rows == 1:

        @device
        def sum_row(elements, place):
            return vector_sum(kept_neighbours(elements, place))

        return sum_row
    half, distance = sum_rows_of(rows // 2), rows // 2 * ROW

    @device
    def sum_rows(elements, place):
        return plus(half(elements, place), half(elements, place + np.uint64(distance)))

    return sum_rows


def scan_rows_of(rows):
    """Makes the function that scans rows in their place, after a sum. It returns the sum with these rows."""
    if rows == 1:

        @device
        def scan_row(elements, place, before, nothing):
            v = kept_neighbours(elements, place)
            a = plus(v[0], v[1])
            b = plus(a, v[2])
            sums = sums_up_to_lane(plus(b, v[3]))
            lower = shuffle_up(sums, 1)
            start = plus(before, lower if cuda.laneid > 0 else nothing)
            keep_neighbours(elements, place, added(start, (v[0], a, b, plus(b, v[3]))))
            return plus(before, last_lane(sums))

        return scan_row
    half, distance = scan_rows_of(rows // 2), rows // 2 * ROW

    @device
    def scan_rows(elements, place, before, nothing):
        before = half(elements, place, before, nothing)
        return half(elements, place + np.uint64(distance), before, nothing)

    return scan_rows


def store_rows_of(rows):
    if rows == 1:

        @device
        def store_row(out, i, elements, place, before):
            store_neighbours(out, i, added(before, kept_neighbours(elements, place)))

        return store_row
    half, distance = store_rows_of(rows // 2), rows // 2 * ROW

    @device
    def store_rows(out, i, elements, place, before):
        half(out, i, elements, place, before)
        half(out, i + np.uint64(distance), elements, place + np.uint64(distance), before)

    return store_rows


def scan_of_tiles(before_tile, size_of_tile):
    """Makes the kernel that scans tiles.

    Args:
        before_tile: The device function that finds the sum of all tiles before one, as ``sum_before`` of
            :mod:`suites.ops.cumsum.look_back` does.
        size_of_tile: TILE or LARGE_TILE.
    """
    rows = size_of_tile // (SCAN_THREADS * NEIGHBOURS)
    begin_rows, sum_rows = begin_rows_of(rows), sum_rows_of(rows)
    scan_rows, store_rows = scan_rows_of(rows), store_rows_of(rows)

    @roomy_kernel(SCAN_THREADS, ROOM)
    def scan_tiles(x, words, out):
        """Each block scans the next tile, in shared memory. With several tiles, they share ``words``.

        A tile waits until the sums of all tiles before are there, and the last of them comes late when memory is busy.
        So memory is busy only if very many tiles wait, or are on their way: registers hold too few of them.

        A warp takes four or eight rows of 32 vectors. First it adds them up, because other blocks wait for the sum.
        Then its shuffles scan the rows, while the first warp looks back.
        """
        await_launch()
        elements = cuda.shared.array(size_of_tile, out.dtype, KEPT_ALIGNMENT)
        totals = cuda.shared.array(WARPS, out.dtype)
        sum_before_tile = cuda.shared.array(1, out.dtype)
        ticket = cuda.shared.array(1, np.int64)
        nothing, zero, width = out.dtype.type(0), np.uint64(0), np.uint64(size_of_tile)
        is_alone = cuda.gridDim.x == 1
        tile = zero if is_alone else taken_tile(words, ticket)
        warp, lane = np.uint64(cuda.threadIdx.x) // np.uint64(WARP), np.uint64(cuda.threadIdx.x) % np.uint64(WARP)
        place = warp * np.uint64(rows * ROW) + lane * np.uint64(NEIGHBOURS)
        i = tile * width + place
        whole = (tile + np.uint64(1)) * width <= np.uint64(x.size) and aligned(x) and aligned(out)
        if whole:
            begin_rows(elements, place, x, i)
            await_copies()
        else:
            for row in range(rows):
                keep_padded(elements, place + np.uint64(row * ROW), x, i + np.uint64(row * ROW))
        own = sum_of_warp(sum_rows(elements, place))
        if lane == zero:
            totals[warp] = own
        cuda.syncthreads()
        before = total = nothing
        for other in range(SCAN_THREADS // WARP):
            if np.uint64(other) == warp:
                before = total
            total = plus(total, totals[other])
        if cuda.threadIdx.x == 0 and not is_alone:
            publish(words, tile, total)
        scan_rows(elements, place, before, nothing)
        before = nothing
        if not is_alone:
            if warp == zero:
                earlier = before_tile(words, tile, cuda.gridDim.x, total, nothing)
                if lane == zero:
                    sum_before_tile[0] = earlier
            cuda.syncthreads()
            before = sum_before_tile[0]
        if whole:
            store_rows(out, i, elements, place, before)
        else:
            for row in range(rows):
                j = np.uint64(row * ROW)
                store_padded(out, i + j, added(before, kept_neighbours(elements, place + j)))

    return scan_tiles


scan_tiles = scan_of_tiles(sum_before, TILE)

scan_large_tiles = scan_of_tiles(sum_before, LARGE_TILE)


def in_one_pass(scan, size_of_tile, x, out, stream):
    """Launches a kernel of :func:`scan_of_tiles` after it cleared the shared ``words``. One tile has none."""
    tiles = -(-x.size // size_of_tile)
    if tiles:
        count = look_back_words(tiles, out.dtype)
        words = cuda.device_array(count, dtype=np.uint64)
        if tiles > 1:
            clear_words[clear_grid(count), THREADS, stream](words)
        scan[tiles, SCAN_THREADS, stream](x, words, out)


def cumsum_cuda(x, out, stream):
    """One pass over the elements."""
    if x.dtype.itemsize > 4:
        in_one_pass(scan_tiles, TILE, x, out, stream)
    else:
        in_one_pass(scan_large_tiles, LARGE_TILE, x, out, stream)
