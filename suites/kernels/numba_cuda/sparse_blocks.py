"""Gives Numba-CUDA kernels of sparse matrices in CSR form the sums, products and scatters of rows.

Their limit: each non-zero loads an element of x from a place that nobody can foresee. On an H200 an x of 800 KB
comes from the L2 cache, in sectors of 32 bytes: 40 million non-zeros move 1.3 GB there, four times the bytes of the
matrix itself. So these building blocks do two things.

* Threads of a warp share a row, as many as keep :data:`LANE_TERMS` terms each under way at once, see
  :mod:`suites.kernels.numba_cuda.blocks`. They add up their parts in registers, by shuffles: no barrier, and no
  shared memory.
* The matrix is loaded with a hint that nobody needs it again (:func:`streamed`), so that it does not drive x out of
  the L1 cache.

Warps must stay together where they shuffle. Loops around a shuffle are the same for all lanes of a warp, and loops
around a barrier for all threads of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suites.kernels.numba_cuda.blocks import LONG, THREADS, cuda, device, kernel, overloads, roomy_kernel
from suites.kernels.numba_cuda.vectors import NEIGHBOURS, aligned, neighbours, store_neighbours
from suites.kernels.numba_cuda.warps import WARP, WARPS, shuffle_from, shuffle_xor, sum_of_lanes

LANE_TERMS = 4
"""Terms of a row that a lane loads at once."""


# Launches: functions of specs or arrays that return the launch arguments of bridge.numba_cuda_kernel.


def lane_count(terms: float) -> int:
    """How many lanes of a warp share a row of so many terms: a power of two."""
    lanes = 1
    while lanes < WARP and lanes * LANE_TERMS < terms:
        lanes *= 2
    return lanes


def csr_launch(rows: int, terms: int) -> dict[str, Any]:
    """The launch for rows of a matrix: the threads with one ``threadIdx.y`` share a row.

    Args:
        rows: How many rows there are.
        terms: How many non-zeros there are.
    """
    lanes = lane_count(terms / max(rows, 1))
    # With rows for more than a million blocks, each block goes on to further rows.
    return {"grid": min(-(-rows // (THREADS // lanes)), 1 << 20), "block": (lanes, THREADS // lanes)}


def csr_rows_of(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel of :func:`csr_row_sums` for the arrays of a call, of which ``data`` is the first."""
    return csr_launch(outs[0].shape[0], inputs[0].shape[0])


# Parts of kernels.


def streamed(array, i):
    """Element i of an array that no thread loads again: the caches give it up first (PTX, ``ld.global.cs``)."""
    return array[i]


@overloads(streamed)
def _streamed(array, i):
    return lambda array, i: cuda.ldcs(array, i)


def csr_row_sums(part: Callable[..., Any], decorate: Callable[..., Any] = kernel) -> Any:
    """Makes the kernel of ``(data, indices, indptr, x, out)`` that sums the rows of a CSR matrix times x.

    A few lanes share a row, as many as a row of mean length keeps busy (:func:`csr_rows_of`). The whole block shares
    a far longer row. A warp for each row would leave most threads idle on short rows. A single thread for a long
    row would hold up its block.

    Args:
        part: The device function of ``(data, indices, x, first, stop, step)`` that sums these elements of a row.
        decorate: Makes the kernel of its function. A block has THREADS threads.
    """

    @decorate
    def row_sums(data, indices, indptr, x, out):
        shared = cuda.shared.array(WARPS, out.dtype)
        rows, lanes, height = np.uint64(out.size), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
        lane = np.uint64(cuda.threadIdx.x)
        first = np.uint64(cuda.blockIdx.x) * height
        while first < rows:
            row = first + np.uint64(cuda.threadIdx.y)
            start, stop = np.uint64(0), np.uint64(0)
            if row < rows:
                start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
            is_long = stop - start > lanes * np.uint64(LONG)
            total = data.dtype.type(0)
            if not is_long:
                total = part(data, indices, x, start + lane, stop, lanes)
            total = sum_of_lanes(shared, total, cuda.blockDim.x)
            if lane == np.uint64(0) and row < rows and not is_long:
                out[row] = total
            if cuda.syncthreads_or(1 if is_long else 0):
                place = np.uint64(cuda.threadIdx.y) * lanes + lane
                row = first
                while row < rows and row < first + height:
                    start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                    if stop - start > lanes * np.uint64(LONG):
                        total = part(data, indices, x, start + place, stop, np.uint64(THREADS))
                        total = sum_of_lanes(shared, total, THREADS)
                        if place == np.uint64(0):
                            out[row] = total
                    row += np.uint64(1)
            first += np.uint64(cuda.gridDim.x) * height

    return row_sums


@device
def scatter_terms(data, indices, factor, out, first, stop, step):
    """Adds these elements of a row times ``factor`` to the elements of ``out`` that their indices name.

    It loads :data:`LANE_TERMS` terms before it adds the first: the compiler may not move a load before an addition.
    """
    k = first
    while k + step * np.uint64(3) < stop:
        k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
        i, i1 = np.uint64(streamed(indices, k)), np.uint64(streamed(indices, k1))
        i2, i3 = np.uint64(streamed(indices, k2)), np.uint64(streamed(indices, k3))
        a, b, c, d = streamed(data, k), streamed(data, k1), streamed(data, k2), streamed(data, k3)
        cuda.atomic.add(out, i, a * factor)
        cuda.atomic.add(out, i1, b * factor)
        cuda.atomic.add(out, i2, c * factor)
        cuda.atomic.add(out, i3, d * factor)
        k += step * np.uint64(4)
    while k < stop:
        cuda.atomic.add(out, np.uint64(streamed(indices, k)), streamed(data, k) * factor)
        k += step


def csr_product(both: bool) -> Any:
    """Makes the kernel of ``(data, indices, indptr, X, out)`` for the product of a CSR matrix and a dense one.

    A warp has a row. Its lanes load 32 non-zeros at once, then pass them on by shuffles: so each non-zero is loaded
    once, for any number of columns. Lanes along x take columns, so that they read neighbours in a row of X, a
    few terms under way at once. With few columns, groups of lanes along y take different terms, and are added up at
    the end. All warps of a block share a row that is far longer.

    Args:
        both: Whether each lane takes two columns, 32 apart. Then ``blockDim.x`` is 32.
    """

    @device
    def part(data, indices, X, j, j32, first, stop, step):
        """This lane's sums for its columns: chunks of 32 non-zeros from ``first`` on, ``step`` apart."""
        total = other = zero = data.dtype.type(0)
        groups, group = cuda.blockDim.y, cuda.threadIdx.y
        lane = np.uint64(group * cuda.blockDim.x + cuda.threadIdx.x)
        while first < stop:
            k = min(first + lane, stop - np.uint64(1))
            value, index = streamed(data, k), streamed(indices, k)
            count = np.int32(min(stop - first, np.uint64(WARP)))
            t = group
            while t - group < count:  # the same for all lanes: they shuffle
                t1, t2, t3 = np.int32(t + groups), np.int32(t + 2 * groups), np.int32(t + 3 * groups)
                a, b = shuffle_from(value, t), shuffle_from(value, t1)
                c, d = shuffle_from(value, t2), shuffle_from(value, t3)
                i, i1 = shuffle_from(index, t), shuffle_from(index, t1)
                i2, i3 = shuffle_from(index, t2), shuffle_from(index, t3)
                # Beyond the last term an element of X that it names is loaded, which may be NaN. It does not count.
                x, x1 = X[np.uint64(i), j], X[np.uint64(i1), j]
                x2, x3 = X[np.uint64(i2), j], X[np.uint64(i3), j]
                total += ((a * x if t < count else zero) + (b * x1 if t1 < count else zero)) + (
                    (c * x2 if t2 < count else zero) + (d * x3 if t3 < count else zero)
                )
                if both:
                    x, x1 = X[np.uint64(i), j32], X[np.uint64(i1), j32]
                    x2, x3 = X[np.uint64(i2), j32], X[np.uint64(i3), j32]
                    other += ((a * x if t < count else zero) + (b * x1 if t1 < count else zero)) + (
                        (c * x2 if t2 < count else zero) + (d * x3 if t3 < count else zero)
                    )
                t = np.int32(t + 4 * groups)
            first += step
        distance = np.int32(cuda.blockDim.x)
        while distance < WARP:  # over the groups of lanes
            total += shuffle_xor(total, distance)
            distance = np.int32(distance * 2)
        return total, other

    @kernel
    def product(data, indices, indptr, X, out):
        shared = cuda.shared.array(THREADS, out.dtype)
        rows, columns = np.uint64(out.shape[0]), np.uint64(out.shape[1])
        warp, warps = np.uint64(cuda.threadIdx.z), np.uint64(cuda.blockDim.z)
        width = np.uint64(cuda.blockDim.x)
        each = width * np.uint64(2) if both else width
        limit, last = np.uint64(WARP * LONG), columns - np.uint64(1)
        first_column = np.uint64(cuda.blockIdx.y) * each
        while first_column < columns:
            column = first_column + np.uint64(cuda.threadIdx.x)
            second = column + np.uint64(WARP)
            j, j32 = min(column, last), min(second, last)  # beyond the last column, it is taken again and not stored
            stores = cuda.threadIdx.y == 0 and column < columns
            first = np.uint64(cuda.blockIdx.x) * warps
            while first < rows:
                row = first + warp
                start, stop = np.uint64(0), np.uint64(0)
                if row < rows:
                    start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                is_long = stop - start > limit
                if row < rows and not is_long:  # the same for all lanes of a warp
                    total, other = part(data, indices, X, j, j32, start, stop, np.uint64(WARP))
                    if stores:
                        out[row, column] = total
                        if both and second < columns:
                            out[row, second] = other
                if cuda.syncthreads_or(1 if is_long else 0):
                    chunk = np.uint64(WARP)
                    row = first
                    while row < rows and row < first + warps:
                        start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                        if stop - start > limit:
                            total, other = part(data, indices, X, j, j32, start + warp * chunk, stop, warps * chunk)
                            total = sum_over_warps(shared, total)
                            if stores and warp == np.uint64(0):
                                out[row, column] = total
                            if both:
                                other = sum_over_warps(shared, other)
                                if stores and warp == np.uint64(0) and second < columns:
                                    out[row, second] = other
                        row += np.uint64(1)
                first += np.uint64(cuda.gridDim.x) * warps
            first_column += np.uint64(cuda.gridDim.y) * each

    return product


@device
def sum_over_warps(shared, value):
    """For each lane the sum of ``value`` over the warps of a block, which lie along z. All threads must call it."""
    lane = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    shared[cuda.threadIdx.z * WARP + lane] = value
    cuda.syncthreads()
    total = shared[lane]
    for warp in range(1, cuda.blockDim.z):
        total += shared[warp * WARP + lane]
    cuda.syncthreads()  # a slower thread must have read it before the next call overwrites it
    return total


@device
def four_aligned(X, index, j):
    """Four neighbours of a row of X, from column j on, in vector loads."""
    return neighbours(X, np.uint64(index) * np.uint64(X.shape[1]) + j)


@device
def four_single(X, index, j):
    """The same neighbours, each in a load of its own."""
    row = np.uint64(index)
    return X[row, j], X[row, j + np.uint64(1)], X[row, j + np.uint64(2)], X[row, j + np.uint64(3)]


@device
def plus_product(total, factor, x):
    """Four sums, and a factor times four numbers."""
    return total[0] + factor * x[0], total[1] + factor * x[1], total[2] + factor * x[2], total[3] + factor * x[3]


def part_in_fours(four_of_row: Callable[..., Any]) -> Any:
    """Makes the device function that sums products for four neighbouring columns, from column j on.

    Args:
        four_of_row: The device function that loads these columns of a row of X.
    """

    @device
    def part(data, indices, X, j, first, stop, step):
        """This lane's sums: the elements from ``first`` on, ``step`` apart."""
        nothing = data.dtype.type(0)
        total = nothing, nothing, nothing, nothing
        k = first
        while k + step * np.uint64(3) < stop:
            k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
            i, i1, i2, i3 = indices[k], indices[k1], indices[k2], indices[k3]
            a, b, c, d = data[k], data[k1], data[k2], data[k3]
            x, x1 = four_of_row(X, i, j), four_of_row(X, i1, j)
            x2, x3 = four_of_row(X, i2, j), four_of_row(X, i3, j)
            total = plus_product(plus_product(plus_product(plus_product(total, a, x), b, x1), c, x2), d, x3)
            k += step * np.uint64(4)
        while k < stop:
            total = plus_product(total, data[k], four_of_row(X, indices[k], j))
            k += step
        return total

    return part


part_aligned, part_single = part_in_fours(four_aligned), part_in_fours(four_single)


@device
def part_of_four(data, indices, X, j, in_vectors, first, stop, step):
    """This lane's sums for four columns, with vector loads or without."""
    if in_vectors:
        return part_aligned(data, indices, X, j, first, stop, step)
    return part_single(data, indices, X, j, first, stop, step)


@device
def sums_over_groups(total):
    """The sums over the groups of lanes of a warp, which lie along y. All lanes must call it."""
    a, b, c, d = total
    distance = np.int32(cuda.blockDim.x)
    while distance < WARP:
        a, b = a + shuffle_xor(a, distance), b + shuffle_xor(b, distance)
        c, d = c + shuffle_xor(c, distance), d + shuffle_xor(d, distance)
        distance = np.int32(distance * 2)
    return a, b, c, d


@device
def store_four_of_row(out, row, column, columns, in_vectors, total):
    """Stores four neighbours of a row, in vectors or one by one."""
    if in_vectors:
        store_neighbours(out, row * columns + column, total)
    else:
        out[row, column], out[row, column + np.uint64(1)] = total[0], total[1]
        out[row, column + np.uint64(2)], out[row, column + np.uint64(3)] = total[2], total[3]


@roomy_kernel(THREADS, 4)
def csr_product_in_fours(data, indices, indptr, X, out):
    """As :func:`csr_product`, if the number of columns is a multiple of four.

    A lane takes four neighbouring columns, in one load of 16 bytes of a row of X. The lanes of a warp load their own
    terms: lanes along x the same one, and groups along y different ones, which lie next to each other. A block stays
    with at most 32 columns, and the blocks of the next ones follow later: on an H200 the part of X that has 32 columns
    stays in the L2 cache where all of X does not.
    """
    shared = cuda.shared.array(THREADS, out.dtype)
    rows, columns = np.uint64(out.shape[0]), np.uint64(out.shape[1])
    warp, warps = np.uint64(cuda.threadIdx.z), np.uint64(cuda.blockDim.z)
    group, groups = np.uint64(cuda.threadIdx.y), np.uint64(cuda.blockDim.y)
    each, four = np.uint64(cuda.blockDim.x) * np.uint64(NEIGHBOURS), np.uint64(NEIGHBOURS)
    limit = np.uint64(WARP * LONG)
    in_vectors = aligned(X) and aligned(out)
    first_column = np.uint64(cuda.blockIdx.y) * each
    while first_column < columns:
        column = first_column + np.uint64(cuda.threadIdx.x) * four
        j = min(column, columns - four)  # beyond the last columns, these are taken again and not stored
        stores = group == np.uint64(0) and column < columns
        first = np.uint64(cuda.blockIdx.x) * warps
        while first < rows:
            row = first + warp
            start, stop = np.uint64(0), np.uint64(0)
            if row < rows:
                start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
            is_long = stop - start > limit
            if row < rows and not is_long:  # the same for all lanes of a warp
                total = part_of_four(data, indices, X, j, in_vectors, start + group, stop, groups)
                total = sums_over_groups(total)
                if stores:
                    store_four_of_row(out, row, column, columns, in_vectors, total)
            if cuda.syncthreads_or(1 if is_long else 0):
                row = first
                while row < rows and row < first + warps:
                    start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                    if stop - start > limit:
                        own, step = start + warp * groups + group, warps * groups
                        total = part_of_four(data, indices, X, j, in_vectors, own, stop, step)
                        a, b, c, d = sums_over_groups(total)
                        a, b = sum_over_warps(shared, a), sum_over_warps(shared, b)
                        c, d = sum_over_warps(shared, c), sum_over_warps(shared, d)
                        if stores and warp == np.uint64(0):
                            store_four_of_row(out, row, column, columns, in_vectors, (a, b, c, d))
                    row += np.uint64(1)
            first += np.uint64(cuda.gridDim.x) * warps
        first_column += np.uint64(cuda.gridDim.y) * each


csr_product_narrow, csr_product_wide = csr_product(both=False), csr_product(both=True)


MOST_FOURS = 8
"""The most lanes of a warp along the columns where a lane takes four: then a row of X fills a line of 128 bytes."""


def product_kernel(inputs: Sequence[Any], outs: Sequence[Any]) -> Any:
    """The kernel for the number of columns of a call: a lane takes four, or two where a warp has too few lanes."""
    columns = outs[0].shape[1]
    if columns % NEIGHBOURS == 0:
        return csr_product_in_fours
    return csr_product_wide if columns > WARP else csr_product_narrow


def product_launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of :func:`product_kernel`. If a lane takes one or two columns, at least four lanes lie along x.

    Each lane takes four terms of 32 at once.
    """
    rows, columns = outs[0].shape
    if columns % NEIGHBOURS == 0:
        width = 1
        while width < MOST_FOURS and width * NEIGHBOURS < columns:
            width *= 2
        each = width * NEIGHBOURS
    else:
        width = 4
        while width < WARP and width < columns:
            width *= 2
        each = 2 * width if columns > WARP else width
    warps = THREADS // WARP
    grid = (min(-(-rows // warps), 1 << 20), min(-(-columns // each), 65535))
    return {"grid": grid, "block": (width, WARP // width, warps)}
