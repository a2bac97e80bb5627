"""Run in a process of its own, with NUMBA_ENABLE_CUDASIM=1: building blocks of CUDA kernels in Numba's simulator."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    WARP,
    aligned,
    cuda,
    first_neighbour,
    kernel,
    neighbour_tiles,
    neighbours,
    store_neighbours,
    widened,
)
from suites.backends.numba_cuda_tables import WORD, hold_bits, hold_elements, row_sums_with_table
from suites.numerics.sparse import csr
from suites.ops.csr_binary_matvec.numba_cuda import ACTIVE
from suites.ops.csr_matvec.numba_cuda import PRODUCTS
from suites.ops.cumsum.look_back import look_back_words, publish, sum_before
from suites.ops.linear_recurrence import OPERATOR as LINEAR_RECURRENCE
from suites.ops.linear_recurrence.numba_cuda import ROWS as SEGMENT_ROWS
from suites.ops.linear_recurrence.numba_cuda import STEPS


def copy_neighbours(x, out):
    """Copies a vector, by whole vectors of both arrays if they begin where vectors may begin."""
    i, size = first_neighbour(), np.uint64(out.size)
    if i + np.uint64(NEIGHBOURS) <= size and aligned(x) and aligned(out):
        store_neighbours(out, i, neighbours(x, i))
    else:
        stop = min(i + np.uint64(NEIGHBOURS), size)
        while i < stop:
            out[i] = widened(x[i])
            i += np.uint64(1)


def _vectors() -> None:
    copy = kernel(copy_neighbours)
    buffer = np.arange(64, dtype=np.float32)
    start = next(i for i in range(4) if buffer[i:].ctypes.data % 16 == 0)
    for first in (start, start + 1):
        for size in (1, 3, 4, 5, 31):
            x, out = buffer[first : first + size], np.full(size + 4, -1, np.float32)
            launch = neighbour_tiles([x], [out[:size]])
            device = cuda.to_device(out)
            copy[launch["grid"], launch["block"]](x, device[:size])
            found = device.copy_to_host()
            assert np.array_equal(found[:size], x), (first, size, found)
            assert (found[size:] == -1).all(), "wrote after the end"


def look_back(words, tile, tiles, totals, out):
    """A warp that looks for the sum before one tile."""
    nothing = totals.dtype.type(0)
    if cuda.threadIdx.x == 0:
        publish(words, np.uint64(tile), totals[tile])
    out[cuda.threadIdx.x] = sum_before(words, np.uint64(tile), np.uint64(tiles), totals[tile], nothing)


def _look_back() -> None:
    """Tiles at the ends of groups and regions, each when exactly the sums that it may wait for are there."""
    tiles, region = 2 * WARP * WARP + 3 * WARP + 7, WARP * WARP
    totals = np.random.default_rng(0).integers(-99, 99, tiles)
    sums = np.cumsum(totals)
    groups = -(-tiles // WARP)
    for dtype in (np.float32, np.int64):
        values = totals.astype(dtype)
        for tile in (0, 1, WARP - 1, WARP, region - 1, region, 2 * region - 1, tiles - 1):
            words = np.zeros(look_back_words(tiles, dtype), np.uint64)
            for other in range(tile // WARP * WARP, tile):
                publish(words, other, values[other])
            for group in range(tile // region * WARP, tile // WARP):
                publish(words, tiles + group, dtype(totals[group * WARP : (group + 1) * WARP].sum()))
            if tile >= region:
                publish(words, tiles + groups + tile // region - 1, dtype(sums[tile // region * region - 1]))
            shared, out = cuda.to_device(words), cuda.to_device(np.zeros(WARP, dtype))
            kernel(look_back)[1, WARP](shared, tile, tiles, values, out)
            assert (out.copy_to_host() == sums[tile] - totals[tile]).all(), (dtype, tile)
            publish(words, tile, values[tile])
            if tile % WARP == WARP - 1:
                publish(words, tiles + tile // WARP, dtype(totals[tile - WARP + 1 : tile + 1].sum()))
            if tile % region == region - 1:
                publish(words, tiles + groups + tile // region, dtype(sums[tile]))
            assert np.array_equal(shared.copy_to_host(), words), (dtype, tile)


RECURRENCE = LINEAR_RECURRENCE.kernels[Backend.NUMBA_CUDA]
WHOLE = SEGMENT_ROWS * STEPS
"""The steps of a round."""


def _recurrence() -> None:
    """Steps that end within a segment and within a round, channels that end within a block, arrays of any alignment."""
    for steps, channels, offset in ((WHOLE, 4, 0), (3 * WHOLE + 1, 20, 0), (2 * WHOLE - 3, 16, 1)):
        random = np.random.default_rng(steps)
        a, b = (random.integers(-1, 2, steps * channels + offset).astype(np.float32) for _ in range(2))
        a, b = a[offset:].reshape(steps, channels), b[offset:].reshape(steps, channels)
        state, wanted = random.integers(-9, 9, channels).astype(np.float32), np.empty_like(b)
        out = cuda.to_device(np.full_like(b, np.nan))
        launch = RECURRENCE.launch([a, b, state], [b])
        RECURRENCE.kernel_of([a, b, state], [b])[launch["grid"], launch["block"]](a, b, state, out)
        for t in range(steps):
            state = wanted[t] = a[t] * state + b[t]
        assert np.array_equal(out.copy_to_host(), wanted), (steps, channels, offset)


def _tables() -> None:
    """Rows of all kinds, in blocks that go on to further rows, with tables that hold nothing, a part or all of x."""
    random, threads = np.random.default_rng(0), 64
    lengths = (3, 0, 3, 33, 600, 1, 0, 255, 256, 257, 7, 1030)
    products = row_sums_with_table(hold_elements, PRODUCTS, threads, 1)
    active = row_sums_with_table(hold_bits, ACTIVE, threads, 1, WORD)
    for columns, lanes, grid in ((100, 8, 2), (4999, 32, 1), (17, 4, 1)):
        data, indices, indptr = csr("int32", lengths, columns, random)
        data, rows = data.astype(np.float32), np.repeat(np.arange(len(lengths)), lengths)
        x = random.integers(-9, 9, columns).astype(np.float32)
        flags = random.random(columns + 1) < 0.3
        cells: list[Any] = [(products, x, 4 * held, x) for held in (1, columns // 2, columns - 1, columns + 9)]
        cells += [(active, each, -(-columns // 16) * 2, each) for each in (flags[1:], flags[:-1])]
        for sums, given, table_bytes, factors in cells:
            out = cuda.to_device(np.full(len(lengths), -1, np.float32))
            sums[grid, (lanes, threads // lanes), 0, table_bytes](data, indices, indptr, given, out)
            expected = np.bincount(rows, data * factors[indices], len(lengths))
            assert np.array_equal(out.copy_to_host(), expected), (columns, lanes, given.dtype, table_bytes)


PARTS = {
    "tables": _tables,
    "vectors": _vectors,
    "look_back": _look_back,
    "recurrence": _recurrence,
}


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
