"""histogram: adds to ``counts`` the number of elements of x in each of the bins [0, 1), [1, 2), ...

There are as many bins as ``counts`` has elements. Elements outside of them are dropped: negative numbers (but not
-0.0), infinities and NaN. Nominal size is the number of elements of x.
"""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import CudaKernel, Domain, Operator, Sizes, Truth, WarpCallable, exact, total_bytes, vectors
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, copy_to
from suites.backends.numba_cuda import LOADS, PARTIALS, THREADS, cuda, device, kernel, load
from suites.backends.warp import scalar, wp

BINS = 128
"""Bins of a sample."""


@numba.njit
def add_counts(x, out):
    """Adds the counts of x to ``out``, a block of x at a time: it finds bins with vector instructions, then counts.

    It counts in two tables in turn, so that equal neighbours need not wait for each other. The last element of a table
    counts the elements outside of all bins: a branch would be mispredicted.
    """
    bins, outside, zero = x.dtype.type(out.size), np.int32(out.size), x.dtype.type(0)
    table, other = np.zeros(out.size + 1, out.dtype), np.zeros(out.size + 1, out.dtype)
    places = np.empty(BLOCK, np.uint32)
    for first in range(0, x.size, BLOCK):
        block = x[first : first + BLOCK]
        for i in range(block.size):
            inside = (block[i] >= zero) & (block[i] < bins)
            places[i] = np.int32(block[i]) if inside else outside
        half = block.size // 2
        for i in range(half):
            table[places[i]] += 1
            other[places[i + half]] += 1
        if block.size % 2:
            table[places[block.size - 1]] += 1
    for i in range(out.size):
        out[i] += table[i] + other[i]


@numba.njit
def histogram(x, counts, out):
    copy_to(out, counts)
    add_counts(x, out)


@numba.njit(parallel=True)
def histogram_parallel(x, counts, out):
    """Each part of x has its own bins. There are at most as many parts as elements per bin."""
    parts = min(numba.get_num_threads(), x.size // max(counts.size, 1))
    if x.size < ONE_THREAD_BELOW or parts < 2:
        histogram(x, counts, out)
    else:
        partials = np.zeros((parts, counts.size), counts.dtype)
        for part in numba.prange(parts):
            add_counts(x[x.size * part // parts : x.size * (part + 1) // parts], partials[part])
        copy_to(out, counts)
        for part in range(parts):
            for i in range(counts.size):
                out[i] += partials[part, i]


SHARED_BINS = 4096
"""The most bins that a block counts in shared memory: with 16 KiB per block a multiprocessor can be full."""

_EACH = 4 * LOADS
"""Elements per thread before there are more blocks: each block adds all its bins, so few blocks are better."""


@device
def count(table, value, bins):
    """Counts one element, in shared or in global memory."""
    if value >= 0 and value < bins:
        cuda.atomic.add(table, np.uint64(value), np.int32(1))


@kernel
def histogram_cuda(x, counts, out):
    """Adds to ``out``, which is in the memory of ``counts``. A block first counts in shared memory if the bins fit."""
    shared = cuda.shared.array(SHARED_BINS, out.dtype)
    all_bins, lane = np.uint64(out.size), np.uint64(cuda.threadIdx.x)
    private = all_bins <= np.uint64(SHARED_BINS)
    if private:
        i = lane
        while i < all_bins:
            shared[i] = 0
            i += np.uint64(THREADS)
    cuda.syncthreads()
    bins = x.dtype.type(all_bins)
    i, step, size = np.uint64(cuda.grid(1)), np.uint64(cuda.gridsize(1)), np.uint64(x.size)
    while i + step * np.uint64(LOADS - 1) < size:
        a, b, c, d = load(x, i, step)
        if private:
            count(shared, a, bins)
            count(shared, b, bins)
            count(shared, c, bins)
            count(shared, d, bins)
        else:
            count(out, a, bins)
            count(out, b, bins)
            count(out, c, bins)
            count(out, d, bins)
        i += step * np.uint64(LOADS)
    while i < size:
        if private:
            count(shared, x[i], bins)
        else:
            count(out, x[i], bins)
        i += step
    cuda.syncthreads()
    if private:
        i = lane
        while i < all_bins:
            if shared[i] != 0:
                cuda.atomic.add(out, i, shared[i])
            i += np.uint64(THREADS)


def _launch(inputs, outs):
    # At least one block: without elements the result is counts, which a launch of no block would not write.
    blocks = min(max(-(-inputs[0].shape[0] // (THREADS * _EACH)), 1), PARTIALS)
    return {"grid": blocks, "block": THREADS, "input_output_aliases": {1: 0}}


COPIES = 64
"""The most tables that a Warp kernel counts in: with few bins the threads of a GPU would wait for each other.

Their number is a power of two, because a remainder by another number takes longer than all other work of a thread.
"""


@functools.cache
def count_warp(dtype):
    element = scalar(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def count(x: wp.array(dtype=element), tables: wp.array2d(dtype=wp.int32)):
        i = wp.tid()
        if x[i] >= element(0) and x[i] < element(tables.shape[1]):
            wp.atomic_add(tables, (i // THREADS) & (tables.shape[0] - 1), int(x[i]), 1)

    return count


@functools.cache
def add_tables_warp():
    vector = wp.array(dtype=wp.int32)

    @wp.kernel(module="unique", enable_backward=False)
    def add_tables(tables: wp.array2d(dtype=wp.int32), counts: vector, out: vector):
        i = wp.tid()
        total = counts[i]
        for table in range(tables.shape[0]):
            total += tables[table, i]
        out[i] = total

    return add_tables


def histogram_warp(inputs, outs):
    """Counts in several tables and adds them up. Together they have far fewer bins than x has elements."""
    size, bins = inputs[0].shape[0], outs[0].shape[0]
    copies = 1
    while copies < COPIES and 8 * copies * bins <= size:
        copies *= 2
    count = bridge.jax_kernel(count_warp(str(inputs[0].dtype)), launch_dims=size, in_out_argnames=["tables"])
    add_tables = bridge.jax_kernel(add_tables_warp(), launch_dims=bins)
    return lambda x, counts: add_tables(*count(x, jnp.zeros((copies, bins), jnp.int32)), counts)


def _reference(x, counts):
    inside = (x >= 0) & (x < counts.size)
    return [counts.at[jnp.where(inside, x, counts.size).astype(jnp.int32)].add(1, mode="drop")]


def _truth(x, counts):
    inside = x[(x >= 0) & (x < counts.size)]
    return Truth(
        (exact((counts + np.bincount(np.floor(inside).astype(np.int64), minlength=counts.size)).astype("i4")),)
    )


def _call(x, dtype, bins, random):
    """Converts x to integers, which rounds down."""
    return np.floor(x).astype(dtype) if np.dtype(dtype).kind == "i" else x.astype(dtype), _counts(bins, random)


def _counts(bins, random):
    return random.integers(0, 100, bins).astype(np.int32)


def _sample(dtype, size, seed):
    """Elements are normally distributed over the bins, with one in twenty outside."""
    random = np.random.default_rng(seed)
    return _call(random.normal(BINS / 2, BINS / 4, size), dtype, BINS, random)


def _edges(dtype):
    random = np.random.default_rng(5)
    cases = {
        "empty": _call(np.zeros(0), dtype, 7, random),
        "no_bins": _call(np.arange(5.0), dtype, 0, random),
        "one": _call(np.zeros(1), dtype, 1, random),
        "odd": _call(random.uniform(-3, 40, 1031), dtype, 37, random),
        "all_in_one_bin": _call(np.full(5000, 3.0), dtype, 5, random),
        "all_outside": _call(np.array([-1.0, 5, 100, -100]), dtype, 5, random),
        "more_bins_than_elements": _call(random.uniform(0, 1031, 33), dtype, 1031, random),
        "more_bins_than_shared_memory_has": _call(random.uniform(-9, 5009, 7000), dtype, 5000, random),
    }
    if np.dtype(dtype).kind == "i":
        return cases | {"extremes": (vectors(dtype)["extremes"], _counts(5, random))}
    # No subnormal numbers: a negative one that is flushed to zero lies in the first bin.
    for name in ("nan", "negative_nan", "both_infs", "minus_zero", "tiny", "huge"):
        cases[name] = (vectors(dtype)[name], _counts(5, random))
    # The neighbours of the bins' ends, and numbers that rounding towards zero would put into the first bin.
    ends = np.arange(6, dtype=dtype)
    beside = [np.nextafter(ends, np.array(side, dtype)) for side in (-9, 9)]
    cases["ends_of_bins"] = (np.concatenate([ends, beside[0][1:], beside[1][1:]]), _counts(5, random))
    cases["between_minus_one_and_zero"] = (np.array([-0.5, -0.999, -1e-3, 0.5], dtype), _counts(5, random))
    return cases


OPERATOR = Operator(
    name="histogram",
    version=1,
    outputs=lambda x, counts: [jax.ShapeDtypeStruct(counts.shape, np.int32)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": histogram,
        "numba_parallel": histogram_parallel,
        # Whole numbers are the same in any order.
        "numba_cuda": CudaKernel(histogram_cuda, _launch, atomic=False),
        "warp": WarpCallable(histogram_warp, calls=2, atomic=False),
    },
    dtypes=("float32", "float64", "int32"),
    sample=_sample,
    domains={"counts": Domain()},
    edges=_edges,
    bytes_read=total_bytes,
    bytes_written=lambda x, counts: total_bytes(counts),
    gradient=None,  # counts are integers
    flops=lambda x, counts: 2 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
