"""Kernels of softmax in Numba-CUDA."""

import functools
import math

import numpy as np

from suites.backends.numba_cuda import (
    NEIGHBOURS,
    WARP,
    WARPS,
    aligned,
    cuda,
    device,
    each_of,
    kernel,
    lanes_combined,
    loads_of,
    neighbours,
    quotient,
    store_neighbours,
    stores_of,
    sum_of_lanes,
    tree_of,
)


@device
def larger(a, b):
    return a if a > b else b


largest_of_lanes = lanes_combined(larger)

KEPT = 8
"""The most vectors of its row that a CUDA thread keeps in registers."""

MOST_LANES = 512
"""The most threads that share a row: with more, each could have only half of the registers."""

FILLED = 1 << 15
"""Threads with KEPT loads each that keep a GPU busy. If there are fewer, more of them share a row."""

FEW = 64
"""Threads of a block, unless a row has more: small blocks spread evenly over the multiprocessors."""


@device
def vector_within(x, first, j, stop):
    """NEIGHBOURS elements of a row that begins at element ``first``, from column j; minus infinity beyond its end."""
    if j < stop:
        return neighbours(x, first + j)
    absent = x.dtype.type(-np.inf)
    return absent, absent, absent, absent


@device
def vector_of_row(x, first, j, stop):
    return neighbours(x, first + j)


@device
def store_within(out, first, j, stop, v):
    if j < stop:
        store_neighbours(out, first + j, v)


@device
def store_in_row(out, first, j, stop, v):
    store_neighbours(out, first + j, v)


@device
def largest_of_four(v):
    return larger(larger(v[0], v[1]), larger(v[2], v[3]))


@device
def exp_of_four(v, center):
    return math.exp(v[0] - center), math.exp(v[1] - center), math.exp(v[2] - center), math.exp(v[3] - center)


@device
def sum_of_four(v):
    return (v[0] + v[1]) + (v[2] + v[3])


@device
def plus(a, b):
    return a + b


@device
def scaled(v, scale):
    return v[0] * scale, v[1] * scale, v[2] * scale, v[3] * scale


def softmax_cuda(x, out):
    """The threads of one ``threadIdx.y`` read a row three times, but only once from memory if the cache holds it."""
    shared = cuda.shared.array(WARPS, out.dtype)
    one, nothing = out.dtype.type(1), out.dtype.type(0)
    rows, columns = np.uint64(x.shape[0]), np.uint64(x.shape[1])
    lanes, height = np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    lane, two, three = np.uint64(cuda.threadIdx.x), lanes * np.uint64(2), lanes * np.uint64(3)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the maximum and the sum
        row = first + np.uint64(cuda.threadIdx.y)
        stop = columns if row < rows else np.uint64(0)
        a = b = c = d = out.dtype.type(-np.inf)
        j = lane
        while j + three < stop:
            a, b = larger(x[row, j], a), larger(x[row, j + lanes], b)
            c, d = larger(x[row, j + two], c), larger(x[row, j + three], d)
            j += lanes * np.uint64(4)
        while j < stop:
            a = larger(x[row, j], a)
            j += lanes
        largest = largest_of_lanes(shared, larger(larger(a, b), larger(c, d)), cuda.blockDim.x)
        a = b = c = d = nothing
        j = lane
        while j + three < stop:
            a += math.exp(x[row, j] - largest)
            b += math.exp(x[row, j + lanes] - largest)
            c += math.exp(x[row, j + two] - largest)
            d += math.exp(x[row, j + three] - largest)
            j += lanes * np.uint64(4)
        while j < stop:
            a += math.exp(x[row, j] - largest)
            j += lanes
        scale = quotient(one, sum_of_lanes(shared, (a + b) + (c + d), cuda.blockDim.x))
        j = lane
        while j + three < stop:
            v0, v1, v2, v3 = x[row, j], x[row, j + lanes], x[row, j + two], x[row, j + three]
            out[row, j] = math.exp(v0 - largest) * scale
            out[row, j + lanes] = math.exp(v1 - largest) * scale
            out[row, j + two] = math.exp(v2 - largest) * scale
            out[row, j + three] = math.exp(v3 - largest) * scale
            j += lanes * np.uint64(4)
        while j < stop:
            out[row, j] = math.exp(x[row, j] - largest) * scale
            j += lanes
        first += np.uint64(cuda.gridDim.x) * height


softmax_in_passes, softmax_cuda = device(softmax_cuda), kernel(softmax_cuda)


@functools.cache
def softmax_kept(lanes, each, is_full):
    """Makes the kernel that reads each row once, and keeps it in registers.

    Constants take no instructions, and the time of many short rows consists of latencies.

    Args:
        lanes: The threads that share a row.
        each: How many vectors each of them keeps.
        is_full: Whether a row is as long as they can keep. If not, an element beyond its end is minus infinity, whose
            exponential is zero.
    """
    height = max(FEW // lanes, 1)
    load = loads_of(vector_of_row if is_full else vector_within, each)
    store = stores_of(store_in_row if is_full else store_within, each)
    largest, total_of = tree_of(largest_of_four, larger, each), tree_of(sum_of_four, plus, each)
    exp_of, scale_by = each_of(exp_of_four, each), each_of(scaled, each)

    @kernel
    def softmax_rows(x, out):
        if aligned(x) and aligned(out):
            shared = cuda.shared.array(WARPS, out.dtype)
            rows, step = np.uint64(x.shape[0]), np.uint64(lanes * NEIGHBOURS)
            columns = step * np.uint64(each) if is_full else np.uint64(x.shape[1])
            row = np.uint64(cuda.blockIdx.x) * np.uint64(height) + np.uint64(cuda.threadIdx.y)
            # Beyond the last row, threads repeat its work and write nothing.
            first, j = min(row, rows - np.uint64(1)) * columns, np.uint64(cuda.threadIdx.x) * np.uint64(NEIGHBOURS)
            v = load(x, first, j, step, columns)
            v = exp_of(v, largest_of_lanes(shared, largest(v), lanes))
            scale = quotient(out.dtype.type(1), sum_of_lanes(shared, total_of(v), lanes))
            if row < rows:
                store(out, first, j, step, columns, scale_by(v, scale))
        else:
            softmax_in_passes(x, out)

    return softmax_rows


def _lanes(rows, columns):
    """As many threads share a row as it has KEPT vectors, at least a warp; more if there are few rows."""
    vectors = -(-columns // NEIGHBOURS)
    lanes = 1
    while lanes < MOST_LANES and lanes < vectors and (lanes * KEPT < vectors or lanes < WARP or rows * lanes < FILLED):
        lanes *= 2
    return lanes


def select(inputs, outs):
    """A row that is a whole number of vectors, and not too long for the registers of its threads, is read once."""
    rows, columns = outs[0].shape
    lanes, each = _lanes(rows, columns), 1
    while lanes * each * NEIGHBOURS < columns:
        each *= 2
    if columns % NEIGHBOURS or each > KEPT:
        return softmax_cuda
    return softmax_kept(lanes, each, lanes * each * NEIGHBOURS == columns)


def launch(inputs, outs):
    rows, columns = outs[0].shape
    lanes = _lanes(rows, columns)
    height = max(FEW // lanes, 1)
    return {"grid": -(-rows // height) if columns else 0, "block": (lanes, height)}
