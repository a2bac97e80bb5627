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
from suites.backends import peers
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_count, block_sum
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    THREADS,
    WARP,
    WARPS,
    aligned,
    cuda,
    device,
    kernel,
    neighbours,
    shuffle_up,
    store_neighbours,
)
from suites.backends.numba_cuda_look_back import (
    clear_grid,
    clear_words,
    last_lane,
    look_back_words,
    plus,
    sum_before,
    sums_up_to_lane,
    taken_tile,
)
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


ROUNDS = 4
"""Vectors of a tile that a CUDA thread takes. A warp takes rows of vectors that lie next to each other."""

SCAN_THREADS = 128
"""Threads of a block. With 256, a block waits longer until all of its tile is there: 221 instead of 191 us for 2**26
float32 on an H200."""

TILE = SCAN_THREADS * ROUNDS * NEIGHBOURS
"""Elements that a block takes."""


@device
def padded(x, i, size, whole, absent):
    """NEIGHBOURS elements from element i: by a vector load if the tile is ``whole``; ``absent`` beyond the end."""
    if whole:
        return neighbours(x, i)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    return (
        x[i] if i < size else absent,
        x[i + one] if i + one < size else absent,
        x[i + two] if i + two < size else absent,
        x[i + three] if i + three < size else absent,
    )


@device
def summed_up(v):
    """The running sums of four values."""
    a = plus(v[0], v[1])
    b = plus(a, v[2])
    return v[0], a, b, plus(b, v[3])


@device
def store_sums(out, i, size, whole, before, v):
    a, b, c, d = plus(before, v[0]), plus(before, v[1]), plus(before, v[2]), plus(before, v[3])
    if whole:
        store_neighbours(out, i, (a, b, c, d))
    else:
        if i < size:
            out[i] = a
        if i + np.uint64(1) < size:
            out[i + np.uint64(1)] = b
        if i + np.uint64(2) < size:
            out[i + np.uint64(2)] = c
        if i + np.uint64(3) < size:
            out[i + np.uint64(3)] = d


@device
def lower_lanes(sums, nothing):
    """What :func:`sums_up_to_lane` found for the lane before; nothing for the first lane."""
    lower = shuffle_up(sums, 1)
    return lower if cuda.laneid > 0 else nothing


def scan_of_tiles(before_tile):
    """Makes the kernel that scans tiles.

    Args:
        before_tile: The device function that finds the sum of all tiles before one, as ``sum_before`` of
            :mod:`suites.backends.numba_cuda_look_back` does.
    """

    @kernel
    def scan_tiles(x, words, out):
        """Each block scans the next tile, in registers. With several tiles, ``words`` is what they share.

        A warp takes ROUNDS rows of 32 vectors. Shuffles scan the sums of vectors, shared memory the sums of warps.
        """
        totals = cuda.shared.array(WARPS, out.dtype)
        ticket = cuda.shared.array(1, np.int64)
        nothing, size, zero = out.dtype.type(0), np.uint64(x.size), np.uint64(0)
        is_alone = cuda.gridDim.x == 1
        tile = zero if is_alone else taken_tile(words, ticket)
        warp, lane = np.uint64(cuda.threadIdx.x) // np.uint64(WARP), np.uint64(cuda.threadIdx.x) % np.uint64(WARP)
        row = np.uint64(WARP * NEIGHBOURS)
        i0 = tile * np.uint64(TILE) + warp * row * np.uint64(ROUNDS) + lane * np.uint64(NEIGHBOURS)
        i1, i2, i3 = i0 + row, i0 + row * np.uint64(2), i0 + row * np.uint64(3)
        whole = (tile + np.uint64(1)) * np.uint64(TILE) <= size and aligned(x) and aligned(out)
        v0, v1 = padded(x, i0, size, whole, nothing), padded(x, i1, size, whole, nothing)
        v2, v3 = padded(x, i2, size, whole, nothing), padded(x, i3, size, whole, nothing)
        v0, v1, v2, v3 = summed_up(v0), summed_up(v1), summed_up(v2), summed_up(v3)
        s0, s1, s2, s3 = sums_up_to_lane(v0[3]), sums_up_to_lane(v1[3]), sums_up_to_lane(v2[3]), sums_up_to_lane(v3[3])
        r1 = last_lane(s0)
        r2 = plus(r1, last_lane(s1))
        r3 = plus(r2, last_lane(s2))
        own = plus(r3, last_lane(s3))
        if lane == zero:
            totals[warp] = own
        cuda.syncthreads()
        before = total = nothing
        for other in range(SCAN_THREADS // WARP):
            if np.uint64(other) == warp:
                before = total
            total = plus(total, totals[other])
        if not is_alone:
            cuda.syncthreads()  # all warps must have read the sums before one takes their place
            if warp == zero:
                earlier = before_tile(words, tile, cuda.gridDim.x, total, nothing)
                if lane == zero:
                    totals[0] = earlier
            cuda.syncthreads()
            before = plus(totals[0], before)
        store_sums(out, i0, size, whole, plus(before, lower_lanes(s0, nothing)), v0)
        store_sums(out, i1, size, whole, plus(plus(before, r1), lower_lanes(s1, nothing)), v1)
        store_sums(out, i2, size, whole, plus(plus(before, r2), lower_lanes(s2, nothing)), v2)
        store_sums(out, i3, size, whole, plus(plus(before, r3), lower_lanes(s3, nothing)), v3)

    return scan_tiles


scan_tiles = scan_of_tiles(sum_before)


def in_one_pass(scan, x, out, stream):
    """Launches a kernel of :func:`scan_of_tiles` after it cleared what the blocks share. One tile shares nothing."""
    tiles = -(-x.size // TILE)
    if tiles:
        count = look_back_words(tiles, out.dtype)
        words = cuda.device_array(count, dtype=np.uint64)
        if tiles > 1:
            clear_words[clear_grid(count), THREADS, stream](words)
        scan[tiles, SCAN_THREADS, stream](x, words, out)


def cumsum_cuda(x, out, stream):
    """One pass over the elements."""
    in_one_pass(scan_tiles, x, out, stream)


EACH = 16
"""The least consecutive elements that a Warp thread adds up."""

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
        "numba_cuda_callable": CudaCallable(cumsum_cuda, atomic=False),  # its atomic operations count tiles
        "numba_cuda_replay": CudaCallable(cumsum_cuda, atomic=False),
        "warp": WarpCallable(cumsum_warp, calls=2 * LEVELS + 1),
    },
    peers=peers.CUMSUM,
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
    sizes=Sizes(large=140_003, cuda_quick=(4096, 2**20, 2**24)),  # on a GPU, more tiles than a group has
)
