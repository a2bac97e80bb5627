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
    await_launch,
    cuda,
    device,
    neighbours,
    roomy_kernel,
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


SCAN_THREADS = 128
"""Threads of a block. With 256, a block waits longer until all of its tile is there: 221 instead of 191 us for 2**26
float32 on an H200."""

ROW = WARP * NEIGHBOURS
"""Elements of a row: a vector of each lane of a warp."""

TILE = SCAN_THREADS * 4 * NEIGHBOURS
"""Elements that a block takes: four rows for each of its warps."""

LARGE_TILE = 2 * TILE
"""Elements that a block takes if they have 4 bytes. It looks back less often, and holds more while it does."""

ROOM = 7
"""Blocks of a multiprocessor: registers hold so many large tiles."""


@device
def padded(x, i, size, absent):
    """NEIGHBOURS elements from element i; ``absent`` beyond the end."""
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
def added(before, v):
    return plus(before, v[0]), plus(before, v[1]), plus(before, v[2]), plus(before, v[3])


@device
def store_padded(out, i, size, v):
    """Stores NEIGHBOURS values from element i, those within the size."""
    if i < size:
        out[i] = v[0]
    if i + np.uint64(1) < size:
        out[i + np.uint64(1)] = v[1]
    if i + np.uint64(2) < size:
        out[i + np.uint64(2)] = v[2]
    if i + np.uint64(3) < size:
        out[i + np.uint64(3)] = v[3]


@device
def four_rows(x, i):
    """This lane's vectors of four rows, of which the first has element i."""
    j, k, last = i + np.uint64(ROW), i + np.uint64(2 * ROW), i + np.uint64(3 * ROW)
    return neighbours(x, i), neighbours(x, j), neighbours(x, k), neighbours(x, last)


@device
def four_padded_rows(x, i, size, absent):
    """What :func:`four_rows` gives, element by element; ``absent`` beyond the end."""
    j, k, last = i + np.uint64(ROW), i + np.uint64(2 * ROW), i + np.uint64(3 * ROW)
    return (
        padded(x, i, size, absent),
        padded(x, j, size, absent),
        padded(x, k, size, absent),
        padded(x, last, size, absent),
    )


@device
def sum_before_lane(before, value, nothing):
    """Returns ``before`` plus the values of all lower lanes, and ``before`` plus the values of all lanes."""
    sums = sums_up_to_lane(value)
    lower = shuffle_up(sums, 1)
    return plus(before, lower if cuda.laneid > 0 else nothing), plus(before, last_lane(sums))


@device
def scanned_rows(before, rows, nothing):
    """The running sums within the vectors of four rows, the sum before each vector, and the sum of all."""
    u, v, w, z = summed_up(rows[0]), summed_up(rows[1]), summed_up(rows[2]), summed_up(rows[3])
    a, total = sum_before_lane(before, u[3], nothing)
    b, total = sum_before_lane(total, v[3], nothing)
    c, total = sum_before_lane(total, w[3], nothing)
    d, total = sum_before_lane(total, z[3], nothing)
    return (u, v, w, z), (a, b, c, d), total


@device
def store_rows(out, i, size, whole, before, starts, rows):
    """Stores the running sums of four rows, by vectors if the tile is ``whole``."""
    j, k, last = i + np.uint64(ROW), i + np.uint64(2 * ROW), i + np.uint64(3 * ROW)
    u, v = added(plus(before, starts[0]), rows[0]), added(plus(before, starts[1]), rows[1])
    w, z = added(plus(before, starts[2]), rows[2]), added(plus(before, starts[3]), rows[3])
    if whole:
        store_neighbours(out, i, u)
        store_neighbours(out, j, v)
        store_neighbours(out, k, w)
        store_neighbours(out, last, z)
    else:
        store_padded(out, i, size, u)
        store_padded(out, j, size, v)
        store_padded(out, k, size, w)
        store_padded(out, last, size, z)


def scan_of_tiles(before_tile, size_of_tile):
    """Makes the kernel that scans tiles.

    Args:
        before_tile: The device function that finds the sum of all tiles before one, as ``sum_before`` of
            :mod:`suites.backends.numba_cuda_look_back` does.
        size_of_tile: TILE or LARGE_TILE.
    """

    rows = size_of_tile // (SCAN_THREADS * NEIGHBOURS)
    is_large = size_of_tile == LARGE_TILE

    @roomy_kernel(SCAN_THREADS, ROOM)
    def scan_tiles(x, words, out):
        """Each block scans the next tile, in registers. With several tiles, ``words`` is what they share.

        A warp takes four or eight rows of 32 vectors. Shuffles scan the sums of vectors, shared
        memory the sums of warps.
        """
        await_launch()
        totals = cuda.shared.array(WARPS, out.dtype)
        ticket = cuda.shared.array(1, np.int64)
        nothing, size, zero = out.dtype.type(0), np.uint64(x.size), np.uint64(0)
        is_alone = cuda.gridDim.x == 1
        tile = zero if is_alone else taken_tile(words, ticket)
        warp, lane = np.uint64(cuda.threadIdx.x) // np.uint64(WARP), np.uint64(cuda.threadIdx.x) % np.uint64(WARP)
        i = tile * np.uint64(size_of_tile) + warp * np.uint64(rows * ROW) + lane * np.uint64(NEIGHBOURS)
        j = i + np.uint64(4 * ROW)
        whole = (tile + np.uint64(1)) * np.uint64(size_of_tile) <= size and aligned(x) and aligned(out)
        if whole:
            u = four_rows(x, i)
            v = four_rows(x, j) if is_large else u
        else:
            u = four_padded_rows(x, i, size, nothing)
            v = four_padded_rows(x, j, size, nothing) if is_large else u
        u, before_u, own = scanned_rows(nothing, u, nothing)
        before_v = before_u
        if is_large:
            v, before_v, own = scanned_rows(own, v, nothing)
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
        store_rows(out, i, size, whole, before, before_u, u)
        if is_large:
            store_rows(out, j, size, whole, before, before_v, v)

    return scan_tiles


scan_tiles = scan_of_tiles(sum_before, TILE)
scan_large_tiles = scan_of_tiles(sum_before, LARGE_TILE)


def in_one_pass(scan, size_of_tile, x, out, stream):
    """Launches a kernel of :func:`scan_of_tiles` after it cleared what the blocks share. One tile shares nothing."""
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
