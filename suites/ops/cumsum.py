"""cumsum: ``out[i] = x[0] + ... + x[i]``; integers wrap around."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaCallable,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    bounded,
    exact,
    quantum,
    running_sums,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites import blocked_terms as chain_of
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_count, block_sum
from suites.backends.numba_cuda import PARTIALS, THREADS, cuda, kernel, strided_sum, sum_lanes
from suites.backends.warp import scalar, wp

QUARTER = BLOCK // 4


@numba.njit
def block_cumsum(x, before, out):
    """The running sums of a block, starting from ``before``. Returns the sum of the block alone.

    It adds up four quarters side by side: in a single chain each addition would wait for the one before.
    """
    a = b = c = d = x.dtype.type(0)
    if x.size == BLOCK:
        for i in range(QUARTER):
            a += x[i]
            b += x[i + QUARTER]
            c += x[i + 2 * QUARTER]
            d += x[i + 3 * QUARTER]
            out[i] = a
            out[i + QUARTER] = b
            out[i + 2 * QUARTER] = c
            out[i + 3 * QUARTER] = d
        before_b, before_c, before_d = before + a, before + (a + b), before + (a + b + c)
        for i in range(QUARTER):
            out[i] += before
            out[i + QUARTER] += before_b
            out[i + 2 * QUARTER] += before_c
            out[i + 3 * QUARTER] += before_d
    else:
        for i in range(x.size):
            a += x[i]
            out[i] = before + a
    return (a + b) + (c + d)


@numba.njit
def cumsum(x, out):
    before = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        before += block_cumsum(x[start : start + BLOCK], before, out[start : start + BLOCK])


@numba.njit(parallel=True)
def cumsum_parallel(x, out):
    """First the sums of all blocks, then the sum before each block, then the running sums within the blocks."""
    if x.size < ONE_THREAD_BELOW:
        cumsum(x, out)
    else:
        blocks = block_count(x.size)
        before = np.zeros(blocks + 1, x.dtype)
        for block in numba.prange(blocks):
            before[block + 1] = block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        for block in range(blocks):
            before[block + 1] += before[block]
        for block in numba.prange(blocks):
            first, last = block * BLOCK, (block + 1) * BLOCK
            block_cumsum(x[first:last], before[block], out[first:last])


EACH = 16
"""Consecutive elements that a CUDA thread adds up."""

TILE = THREADS * EACH
"""Elements that a block takes at a time."""

_PADDED = TILE + THREADS
_SHIFT = np.uint64(4)
"""``i >> _SHIFT`` is the thread that adds up element i of a tile."""


@kernel
def add_up_ranges(x, sums):
    """``sums[b]`` becomes the sum of the tiles that block b of :func:`scan` takes."""
    shared = cuda.shared.array(THREADS, x.dtype)
    tiles = (x.size + TILE - 1) // TILE
    each = (tiles + cuda.gridDim.x - 1) // cuda.gridDim.x * TILE
    first = min(cuda.blockIdx.x * each, x.size)
    last = min(first + each, x.size)
    total = sum_lanes(shared, strided_sum(x[first:last], cuda.threadIdx.x, THREADS), THREADS)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = total


@kernel
def scan(x, before, out):
    """Each block scans the same number of consecutive tiles. ``before[b-1]`` is the sum of all tiles before block b.

    Neighbouring threads read and write neighbours in memory. In shared memory each thread adds up EACH elements of the
    tile. One element in 17 is left out there, so that no two threads use one bank.
    """
    tile = cuda.shared.array(_PADDED, out.dtype)
    totals = cuda.shared.array(THREADS, out.dtype)
    zero, one = out.dtype.type(0), np.uint64(1)
    size, lane, block = np.uint64(x.size), np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockIdx.x)
    width, threads = np.uint64(TILE), np.uint64(THREADS)
    tiles = np.uint64((x.size + TILE - 1) // TILE)
    each = np.uint64((tiles + np.uint64(cuda.gridDim.x) - one) // np.uint64(cuda.gridDim.x))
    first, last = block * each * width, min((block + one) * each * width, size)
    carry = zero
    if block > np.uint64(0):
        carry = before[block - one]
    while first < last:  # the same for all threads of a block: they synchronise in the loop
        i = lane
        while i < width:
            tile[i + (i >> _SHIFT)] = x[first + i] if first + i < last else zero
            i += threads
        cuda.syncthreads()
        place = lane * np.uint64(EACH + 1)
        total = tile[place]
        for k in range(1, EACH):
            total += tile[place + np.uint64(k)]
            tile[place + np.uint64(k)] = total
        totals[lane] = total
        cuda.syncthreads()
        reach = one
        while reach < threads:
            earlier = zero
            if lane >= reach:
                earlier = totals[lane - reach]
            cuda.syncthreads()
            totals[lane] += earlier
            cuda.syncthreads()
            reach += reach
        i = lane
        while i < width and first + i < last:
            thread = i >> _SHIFT
            start = carry
            if thread > np.uint64(0):
                start += totals[thread - one]
            out[first + i] = start + tile[i + thread]
            i += threads
        carry += totals[threads - one]
        cuda.syncthreads()  # a slower thread must have read this tile before the next one overwrites it
        first += width


def cumsum_cuda(x, out, stream):
    """Three passes: the sum of each block, the running sums of these, and the running sums within each block."""
    tiles = -(-x.size // TILE)
    blocks = min(PARTIALS, tiles)
    if blocks == 1:
        scan[1, THREADS, stream](x, x, out)
    elif blocks:
        sums, before = cuda.device_array(blocks, dtype=x.dtype), cuda.device_array(blocks, dtype=x.dtype)
        add_up_ranges[blocks, THREADS, stream](x, sums)
        scan[1, THREADS, stream](sums, sums, before)
        scan[blocks, THREADS, stream](x, before, out)


FEW = 256
"""About the most sums that one Warp thread adds up."""


@functools.cache
def add_up_parts_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def add_up_parts(x: vector, each: int, sums: vector):
        part = wp.tid()
        total = element(0)
        for i in range(part * each, wp.min((part + 1) * each, x.shape[0])):
            total += x[i]
        sums[part] = total

    return add_up_parts


@functools.cache
def scan_parts_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def scan_parts(x: vector, before: vector, each: int, out: vector):
        part = wp.tid()
        total = element(0)
        if part > 0:
            total = before[part - 1]
        for i in range(part * each, wp.min((part + 1) * each, x.shape[0])):
            total += x[i]
            out[i] = total

    return scan_parts


LEVELS = 3
"""How many times parts are added up until few sums are left."""


def cumsum_warp(inputs, outs):
    """Adds up parts, then parts of their sums, and so on. One thread scans the last few sums, many threads the parts.

    Parts are short, so that the elements that a block reads stay in the cache until each thread has read its part.
    """
    dtype, size = str(inputs[0].dtype), inputs[0].shape[0]
    each = EACH
    while each**LEVELS * FEW < size:
        each += 1
    sizes = [-(-size // each**level) for level in range(LEVELS + 1)]
    ups = [bridge.jax_kernel(add_up_parts_warp(dtype), launch_dims=parts, output_dims=parts) for parts in sizes[1:]]
    top = bridge.jax_kernel(scan_parts_warp(dtype), launch_dims=min(sizes[-1], 1), output_dims=sizes[-1])
    downs = [
        bridge.jax_kernel(scan_parts_warp(dtype), launch_dims=parts, output_dims=count)
        for count, parts in itertools.pairwise(sizes)
    ]

    def cumsum(x):
        sums = [x]
        for up in ups:
            sums += up(sums[-1], each)
        (before,) = top(sums[-1], sums[-1], sizes[-1])
        for down, elements in zip(reversed(downs), reversed(sums[:-1]), strict=True):
            (before,) = down(elements, before, each)
        return [before]

    return cumsum


def _truth(x):
    """The sum of n elements has the roundings of :func:`suites.numerics.blocked_sums.blocked_terms`."""
    if x.dtype.kind != "f":
        return Truth((exact(np.cumsum(x, dtype=x.dtype)),))  # integers wrap around
    with np.errstate(invalid="ignore"):
        value, condition = np.cumsum(wide(x)), np.cumsum(np.abs(wide(x)))
    count = np.arange(1, x.size + 1)
    return Truth(
        (
            bounded(
                value,
                x.dtype,
                condition=condition,
                terms=_chains(count),
                flushed=count + 1.0,
                partial=running_sums(x),
                quantum=quantum(x),
            ),
        )
    )


def _chains(count):
    return np.minimum(count, BLOCK) + -(-count // BLOCK)


OPERATOR = Operator(
    name="cumsum",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [jnp.cumsum(x, dtype=x.dtype)],
    truth=_truth,
    kernels={
        "numba": cumsum,
        "numba_parallel": cumsum_parallel,
        "numba_cuda_callable": CudaCallable(cumsum_cuda),
        "numba_cuda_replay": CudaCallable(cumsum_cuda),
        "warp": WarpCallable(cumsum_warp, calls=2 * LEVELS + 1),
    },
    dtypes=("float32", "float64", "int32", "int64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: (
        {name: (vector,) for name, vector in vectors(dtype).items()}
        | {"block_and_one": (values(dtype, BLOCK + 1, np.random.default_rng(4)),)}
    ),
    # A cotangent is the sum of all that follow it; each level adds one rounding.
    gradient=Gradient({0: lambda x: chain_of(x.size) + LEVELS}),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24)),
)
