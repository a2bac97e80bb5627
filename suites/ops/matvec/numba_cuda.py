"""Kernels of matvec in Numba-CUDA."""

import functools

import numpy as np

from suites.backends.numba_cuda import (
    NEIGHBOURS,
    WARP,
    WARPS,
    aligned,
    cuda,
    device,
    four_sums_of_lanes,
    kernel,
    lanes_of,
    loads_of,
    neighbours,
    neighbours_once,
    roomy_kernel,
    rows_of,
    sum_of_lanes,
    tree_of,
)


@device
def dot_of_four(a, b):
    return (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3])


ROWS = 4
"""Rows that a group of CUDA threads multiplies at a time if there are many: it loads x once for all of them."""

FILLED = 1 << 17
"""About the threads that a GPU runs at once. If all have something to load all the time, they are enough."""

MOST = 64
"""Threads of a block, unless a row has more: small blocks spread evenly over the multiprocessors."""

SLOTS = ROWS * WARPS

LONG = 1024
"""The fewest columns of long rows: the shortest that were measured to be faster with :func:`matvec_long_rows`."""

VECTORS = 4
"""Vectors of a long row that a thread loads, and as many of x, before it uses the first."""

MOST_LANES = 512
"""The most threads of a long row: with more, each could have only half of the registers."""

KEPT = 8
"""The most vectors of a row that a thread can load, and as many of x, before it uses the first."""

ROOM = 1024
"""Threads of a multiprocessor that have registers for that."""


@kernel
def matvec_cuda(A, x, out):
    """The threads of one ``threadIdx.y`` are a group, and sum a row or ROWS neighbouring rows, in four chains."""
    shared = cuda.shared.array(SLOTS, out.dtype)
    rows, columns, lanes = np.uint64(out.size), np.uint64(A.shape[1]), np.uint64(cuda.blockDim.x)
    each, lane, step = np.uint64(NEIGHBOURS), np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x * NEIGHBOURS)
    one, two, three, last = np.uint64(1), np.uint64(2), np.uint64(3), rows - np.uint64(1)
    group = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    in_vectors = columns % each == np.uint64(0) and aligned(A) and aligned(x)
    is_single = np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.y) >= rows
    a = b = c = d = out.dtype.type(0)
    # Beyond the last row, a group repeats its work and writes nothing.
    if is_single:
        row, j = group, lane
        own = min(row, last)
        if in_vectors:
            first, j = own * columns, lane * each
            while j + step * three < columns:
                j1, j2, j3 = j + step, j + step * two, j + step * three
                v0, v1 = neighbours(A, first + j), neighbours(A, first + j1)
                v2, v3 = neighbours(A, first + j2), neighbours(A, first + j3)
                a += dot_of_four(v0, neighbours(x, j))
                b += dot_of_four(v1, neighbours(x, j1))
                c += dot_of_four(v2, neighbours(x, j2))
                d += dot_of_four(v3, neighbours(x, j3))
                j += step * np.uint64(4)
            while j < columns:
                a += dot_of_four(neighbours(A, first + j), neighbours(x, j))
                j += step
        while j < columns:
            a += A[own, j] * x[j]
            j += lanes
        a = sum_of_lanes(shared, (a + b) + (c + d), cuda.blockDim.x)
        if lane == np.uint64(0) and row < rows:
            out[row] = a
    else:
        row, j = group * np.uint64(ROWS), lane
        r0, r1, r2, r3 = min(row, last), min(row + one, last), min(row + two, last), min(row + three, last)
        if in_vectors:
            j = lane * each
            while j < columns:
                v = neighbours(x, j)
                v0, v1 = neighbours(A, r0 * columns + j), neighbours(A, r1 * columns + j)
                v2, v3 = neighbours(A, r2 * columns + j), neighbours(A, r3 * columns + j)
                a += dot_of_four(v0, v)
                b += dot_of_four(v1, v)
                c += dot_of_four(v2, v)
                d += dot_of_four(v3, v)
                j += step
        while j < columns:
            v0, v1, v2, v3 = A[r0, j], A[r1, j], A[r2, j], A[r3, j]
            a += v0 * x[j]
            b += v1 * x[j]
            c += v2 * x[j]
            d += v3 * x[j]
            j += lanes
        a, b, c, d = four_sums_of_lanes(shared, a, b, c, d, cuda.blockDim.x)
        if lane == np.uint64(0):
            if row < rows:
                out[row] = a
            if row + one < rows:
                out[row + one] = b
            if row + two < rows:
                out[row + two] = c
            if row + three < rows:
                out[row + three] = d


@device
def share_of_row(A, x, row, lane, lanes):
    """Returns the part of a row's product that one of its threads computes, in four chains. The cache is left to x."""
    columns, lanes = np.uint64(A.shape[1]), np.uint64(lanes)
    each, two, three = np.uint64(NEIGHBOURS), np.uint64(2), np.uint64(3)
    first, j, step = row * columns, lane, lanes * each
    a = b = c = d = A.dtype.type(0)
    if columns % each == np.uint64(0) and aligned(A) and aligned(x):
        j = lane * each
        while j + step * three < columns:
            i = first + j
            v0, v1 = neighbours_once(A, i), neighbours_once(A, i + step)
            v2, v3 = neighbours_once(A, i + step * two), neighbours_once(A, i + step * three)
            x0, x1 = neighbours(x, j), neighbours(x, j + step)
            x2, x3 = neighbours(x, j + step * two), neighbours(x, j + step * three)
            a += dot_of_four(v0, x0)
            b += dot_of_four(v1, x1)
            c += dot_of_four(v2, x2)
            d += dot_of_four(v3, x3)
            j += step * np.uint64(4)
        while j < columns:
            a += dot_of_four(neighbours_once(A, first + j), neighbours(x, j))
            j += step
    while j < columns:
        a += A[row, j] * x[j]
        j += lanes
    return (a + b) + (c + d)


@roomy_kernel(MOST_LANES, 2)
def matvec_long_rows(A, x, out):
    """The threads of one ``threadIdx.y`` are a group, and sum a row."""
    shared = cuda.shared.array(WARPS, out.dtype)
    rows, lane = np.uint64(out.size), np.uint64(cuda.threadIdx.x)
    row = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    # Beyond the last row, a group repeats its work and writes nothing.
    share = share_of_row(A, x, min(row, rows - np.uint64(1)), lane, cuda.blockDim.x)
    total = sum_of_lanes(shared, share, cuda.blockDim.x)
    if lane == np.uint64(0) and row < rows:
        out[row] = total


@device
def pair_of_row(arrays, first, j, stop):
    """The vectors of column j: of a row that begins at element ``first``, and of x."""
    A, x = arrays
    return neighbours_once(A, first + j), neighbours(x, j)


@device
def pair_within(arrays, first, j, stop):
    """Returns :func:`pair_of_row`; zeros beyond the end of the row."""
    if j < stop:
        return pair_of_row(arrays, first, j, stop)
    zero = arrays[0].dtype.type(0)
    return (zero, zero, zero, zero), (zero, zero, zero, zero)


@device
def dot_of_pair(pair):
    return dot_of_four(pair[0], pair[1])


@device
def plus(a, b):
    return a + b


@functools.cache
def matvec_kept(lanes, each, is_full):
    """Makes the kernel that loads all of a row, and of x, before it multiplies.

    Constants take no instructions, and the time of small products consists of latencies.

    Args:
        lanes: The threads that share a row.
        each: How many vectors of the row each of them takes.
        is_full: Whether a row is as long as they take. If not, zeros follow it.
    """
    height = max(MOST // lanes, 1)
    load = loads_of(pair_of_row if is_full else pair_within, each)
    dot = tree_of(dot_of_pair, plus, each)

    @roomy_kernel(lanes * height, ROOM // (lanes * height))
    def matvec_rows(A, x, out):
        shared = cuda.shared.array(WARPS, out.dtype)
        rows, step = np.uint64(out.size), np.uint64(lanes * NEIGHBOURS)
        columns = step * np.uint64(each) if is_full else np.uint64(A.shape[1])
        row = np.uint64(cuda.blockIdx.x) * np.uint64(height) + np.uint64(cuda.threadIdx.y)
        lane = np.uint64(cuda.threadIdx.x)
        own = min(row, rows - np.uint64(1))
        if aligned(A) and aligned(x):
            share = dot(load((A, x), own * columns, lane * np.uint64(NEIGHBOURS), step, columns))
        else:
            share = share_of_row(A, x, own, lane, lanes)
        total = sum_of_lanes(shared, share, lanes)
        if lane == np.uint64(0) and row < rows:
            out[row] = total

    return matvec_rows


@kernel
def matvec_by_elements(A, x, out):
    """The threads with one ``threadIdx.y`` share a row, and load an element at a time."""
    shared = cuda.shared.array(WARPS, out.dtype)
    rows, columns = np.uint64(A.shape[0]), np.uint64(A.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the sum
        row = first + np.uint64(cuda.threadIdx.y)
        share = out.dtype.type(0)
        j = lane if row < rows else columns
        while j < columns:
            share += A[row, j] * x[j]
            j += lanes
        total = sum_of_lanes(shared, share, cuda.blockDim.x)
        if lane == np.uint64(0) and row < rows:
            out[row] = total
        first += np.uint64(cuda.gridDim.x) * height


def launch_by_elements(inputs, outs):
    return rows_of(*inputs[0].shape)


def _lanes(rows, columns):
    """As many threads share a row as it has vectors, at most a block; fewer if all rows keep a GPU busy anyway.

    All groups then run at once. With more threads than fit, the last blocks would run on a GPU that is half empty.
    Long rows have blocks enough to fill it, and fewer threads each.

    Returns:
        The threads of a group, and how many rows it takes.
    """
    if columns >= LONG:
        return lanes_of(columns, VECTORS, MOST_LANES), 1
    lanes = lanes_of(columns)
    each = ROWS if rows * lanes >= FILLED * ROWS // 2 else 1
    while lanes > WARP and rows * lanes > FILLED * each:
        lanes //= 2
    return lanes, each


def select(inputs, outs):
    rows, columns = inputs[0].shape
    lanes, rows_of_group = _lanes(rows, columns)
    each = 1
    while lanes * each * NEIGHBOURS < columns:
        each *= 2
    if columns and columns % NEIGHBOURS == 0 and each <= KEPT and rows_of_group == 1:
        return matvec_kept(lanes, each, lanes * each * NEIGHBOURS == columns)
    return matvec_cuda if columns < LONG else matvec_long_rows


def launch(inputs, outs):
    rows, columns = inputs[0].shape
    lanes, rows_of_group = _lanes(rows, columns)
    height = max(MOST // lanes, 1)
    return {"grid": -(-rows // (height * rows_of_group)), "block": (lanes, height)}
