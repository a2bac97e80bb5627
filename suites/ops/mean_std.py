"""mean_std: mean and (population) standard deviation of a vector, in two passes; NaN for no elements."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaCallable,
    Expected,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    blocked_terms,
    bounded,
    gamma,
    partial_sums,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import (
    BLOCK,
    ONE_THREAD_BELOW,
    block_count,
    block_squares,
    block_sum,
    blocked_squares,
    blocked_sum,
)
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    THREADS,
    WARP,
    WARPS,
    aligned,
    await_launch,
    cuda,
    device,
    kernel,
    let_next_begin,
    load,
    neighbours,
    partial_count,
    quotient,
    roomy_kernel,
    shuffle_xor,
    sum_of_lanes,
)
from suites.backends.warp import PARTS, PARTS_THREADS, SIDE, TILE, blocks, part_count, scalar, wp
from suites.backends.warp import add_up as add_up_warp


@numba.njit(error_model="numpy")
def mean_std(x, mean_out, std_out):
    mean = x.dtype.type(blocked_sum(x) / x.size)
    mean_out[0] = mean
    std_out[0] = math.sqrt(blocked_squares(x, mean) / x.size)


@numba.njit(parallel=True, error_model="numpy")
def mean_std_parallel(x, mean_out, std_out):
    if x.size < ONE_THREAD_BELOW:
        mean_std(x, mean_out, std_out)
    else:
        blocks = block_count(x.size)
        total = x.dtype.type(0)
        for block in numba.prange(blocks):
            total += block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        mean = x.dtype.type(total / x.size)
        squares = x.dtype.type(0)
        for block in numba.prange(blocks):
            squares += block_squares(x[block * BLOCK : (block + 1) * BLOCK], mean)
        mean_out[0] = mean
        std_out[0] = math.sqrt(squares / x.size)


BATCH = 4
"""Vectors that a CUDA thread loads before it uses the first."""

ROOM = 4
"""Blocks of a multiprocessor: with more, threads have no registers for BATCH loads at a time."""

MOST_PARTS = 512
"""The most blocks: about as many as run at once, ROOM on each of 132 multiprocessors."""


GROUP_SLOTS = 3 * THREADS // WARP
"""What a block needs in shared memory for the three numbers of each warp's group."""


@device
def merged(first, second):
    """Merges two groups of elements: how many each has, their mean, and the sum of squared distances from it.

    Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979. With m and
    n elements and means that are d apart, the squared distances from the common mean sum up to ``d**2 m n / (m + n)``
    more. No difference of large sums appears, so no digits are lost.
    """
    count = first[0] + second[0]
    share = quotient(second[0], max(count, type(count)(1)))
    distance = second[1] - first[1]
    squares = first[2] + second[2] + distance * (distance * (first[0] * share))
    return count, first[1] + distance * share, squares


@device
def group_of_four(v, center):
    """The group of four elements, as distances from a number that is near their mean, and their sum."""
    a, b, c, d = v[0] - center, v[1] - center, v[2] - center, v[3] - center
    four = type(a)(4)
    mean = ((a + b) + (c + d)) / four
    a, b, c, d = a - mean, b - mean, c - mean, d - mean
    return (four, mean, (a * a + b * b) + (c * c + d * d)), (v[0] + v[1]) + (v[2] + v[3])


@device
def same_size(first, second):
    """What :func:`merged` gives for two groups with as many elements."""
    distance = second[1] - first[1]
    half = type(distance)(0.5)
    squares = first[2] + second[2] + distance * (distance * (half * first[0]))
    return first[0] + second[0], half * (first[1] + second[1]), squares


@device
def group_of_share(x, center, thread, threads):
    """The group of this thread's share of a vector, taken as by ``sum_of_share``, and its sum."""
    size, each = np.uint64(x.size), np.uint64(NEIGHBOURS)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    found, total = (zero, zero, zero), zero
    whole = size // each if aligned(x) else np.uint64(0)
    i, step = np.uint64(thread), np.uint64(threads)
    while i + step * np.uint64(BATCH - 1) < whole:
        p, q = neighbours(x, i * each), neighbours(x, (i + step) * each)
        r, s = neighbours(x, (i + step * np.uint64(2)) * each), neighbours(x, (i + step * np.uint64(3)) * each)
        (p, a), (q, b), (r, c), (s, d) = (
            group_of_four(p, center), group_of_four(q, center), group_of_four(r, center), group_of_four(s, center),
        )  # fmt: skip
        found = merged(found, same_size(same_size(p, q), same_size(r, s)))
        total += (a + b) + (c + d)
        i += step * np.uint64(BATCH)
    while i < whole:
        p, a = group_of_four(neighbours(x, i * each), center)
        found, total = merged(found, p), total + a
        i += step
    i = whole * each + np.uint64(thread)
    while i + step * np.uint64(3) < size:
        p, a = group_of_four(load(x, i, step), center)
        found, total = merged(found, p), total + a
        i += step * np.uint64(4)
    while i < size:
        found, total = merged(found, (one, x[i] - center, zero)), total + x[i]
        i += step
    return found, total


@device
def merged_with_lane(group, reach):
    """Merges the group of this thread with the group of another lane."""
    count, mean, squares = group
    return merged(group, (shuffle_xor(count, reach), shuffle_xor(mean, reach), shuffle_xor(squares, reach)))


@device
def group_of_block(shared, group):
    """The groups of all threads of a block of THREADS merged; only the first warp has the result. All must call it.

    ``shared`` has an element for each warp and each of the three numbers of a group.
    """
    reach = WARP >> 1
    while reach > 0:
        group = merged_with_lane(group, reach)
        reach >>= 1
    place = np.uint64(cuda.threadIdx.x)
    warp, lane, warps = place // np.uint64(WARP), place % np.uint64(WARP), np.uint64(THREADS // WARP)
    if lane == np.uint64(0):
        shared[warp], shared[warp + warps], shared[warp + warps + warps] = group
    cuda.syncthreads()
    other = lane % warps
    group = shared[other], shared[other + warps], shared[other + warps + warps]
    reach = THREADS // WARP >> 1
    while reach > 0:
        group = merged_with_lane(group, reach)
        reach >>= 1
    return group


@device
def center_of_sample(shared, x):
    """The mean of THREADS elements from all over x, the same in all blocks."""
    i = np.uint64(cuda.threadIdx.x) * np.uint64(x.size) // np.uint64(THREADS)
    sample = x[i] if x.size > 0 else x.dtype.type(0)
    return sum_of_lanes(shared, sample, THREADS) / x.dtype.type(THREADS)


@roomy_kernel(THREADS, ROOM)
def groups_of_parts(x, parts):
    """Block b writes the group of the elements that it takes, and their sum: four numbers from ``parts[4 b]``.

    Means are distances from a center that is near the mean of x. So their rounding errors are small in proportion to
    the standard deviation, also where the mean is a thousand times as large. The mean of a sample of m elements is
    within ``std sqrt(n / m)`` of the mean of all n, whatever they are: each of m elements contributes to the variance.
    """
    let_next_begin()
    shared = cuda.shared.array(WARPS, x.dtype)
    groups = cuda.shared.array(GROUP_SLOTS, x.dtype)
    center = center_of_sample(shared, x)
    group, total = group_of_share(x, center, cuda.grid(1), cuda.gridsize(1))
    total = sum_of_lanes(shared, total, THREADS)
    group = group_of_block(groups, group)
    if cuda.threadIdx.x == 0:
        first = np.uint64(4) * np.uint64(cuda.blockIdx.x)
        parts[first], parts[first + np.uint64(1)], parts[first + np.uint64(2)] = group
        parts[first + np.uint64(3)] = total


@kernel
def mean_std_of_parts(x, parts, mean_out, std_out):
    """One block merges what the blocks of the launch before have found. Without any, there are no elements."""
    await_launch()
    shared = cuda.shared.array(WARPS, x.dtype)
    groups = cuda.shared.array(GROUP_SLOTS, x.dtype)
    zero = x.dtype.type(0)
    group, total = (zero, zero, zero), zero
    i, size, four = np.uint64(cuda.threadIdx.x) * np.uint64(4), np.uint64(parts.size), np.uint64(4)
    while i < size:
        count, mean, squares, part = neighbours(parts, i)
        group, total = merged(group, (count, mean, squares)), total + part
        i += four * np.uint64(THREADS)
    total = sum_of_lanes(shared, total, THREADS)
    group = group_of_block(groups, group)
    if cuda.threadIdx.x == 0:
        size_of_x = x.dtype.type(x.size)
        mean_out[0] = total / size_of_x
        std_out[0] = math.sqrt(group[2] / size_of_x)


def mean_std_cuda(x, mean_out, std_out, stream):
    """One pass over the elements."""
    blocks = min(partial_count(x.size), MOST_PARTS)
    parts = cuda.device_array(4 * blocks, dtype=x.dtype)
    groups_of_parts[blocks, THREADS, stream](x, parts)
    mean_std_of_parts[1, THREADS, stream](x, parts, mean_out, std_out)


@functools.cache
def finish_mean_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def finish_mean(sums: vector, count: int, mean: vector, centers: vector):
        """Computes the mean from partial sums, and fills a tile with it."""
        average = wp.tile_sum(wp.tile_load(sums, shape=PARTS)) * (element(1) / element(count))
        wp.tile_store(mean, average)
        wp.tile_store(centers, wp.tile_broadcast(average, shape=(TILE,)))

    return finish_mean


@functools.cache
def add_up_squares_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def squared_distance(a: element, b: element):
        return (a - b) * (a - b)

    @wp.kernel(module="unique")
    def add_up_squares(x: vector, centers: vector, sums: vector):
        """Like :func:`suites.backends.warp_blocks.add_up`, for squared distances."""
        tiles = (x.shape[0] + TILE - 1) // TILE
        each = (tiles + sums.shape[0] - 1) // sums.shape[0]
        first = wp.tid() * each
        total = wp.tile_zeros(shape=TILE, dtype=element)
        for i in range(first, wp.min(first + each, tiles)):
            # Beyond the end of x tiles hold zeros, so the center must be zero there too.
            beyond = wp.max((i + 1) * TILE - x.shape[0], 0)
            center = wp.tile_load(centers, shape=TILE, offset=beyond)
            total += wp.tile_map(squared_distance, wp.tile_load(x, shape=TILE, offset=i * TILE), center)
        square = wp.tile_reshape(total * element(1), shape=(SIDE, SIDE))
        wp.tile_store(sums, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=wp.tid())

    return add_up_squares


@functools.cache
def finish_std_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def root(value: element):  # older releases of Warp have no adjoint of a tile's wp.sqrt
        return wp.sqrt(value)

    @wp.kernel(module="unique")
    def finish_std(sums: vector, count: int, std: vector):
        # No loop: the adjoint of the root needs the sum, and adjoints do not know the result of a loop.
        variance = wp.tile_sum(wp.tile_load(sums, shape=PARTS)) * (element(1) / element(count))
        wp.tile_store(std, wp.tile_map(root, variance))

    return finish_std


def mean_std_warp(inputs, outs):
    dtype, count = str(inputs[0].dtype), inputs[0].shape[0]
    parts = part_count(count)
    add = bridge.jax_kernel(add_up_warp(dtype), **blocks(parts), output_dims=parts)
    mean_of = bridge.jax_kernel(
        finish_mean_warp(dtype),
        num_outputs=2,
        **blocks(1, PARTS_THREADS),
        output_dims={"mean": 1, "centers": TILE},
    )
    add_squares = bridge.jax_kernel(add_up_squares_warp(dtype), **blocks(parts), output_dims=parts)
    std_of = bridge.jax_kernel(finish_std_warp(dtype), **blocks(1, PARTS_THREADS), output_dims=1)

    def mean_std(x):
        mean, centers = mean_of(*add(x), count)
        return [mean, *std_of(*add_squares(x, centers), count)]

    return mean_std


def _reference(x):
    return [jnp.mean(x, keepdims=True), jnp.std(x, keepdims=True)]


def _truth(x):
    """The computed mean is off by ``e <= gamma_{k+1} mean|x|``.

    Squared distances to a centre that is off by e have the exact mean ``variance + e**2``. The subtraction and the
    square add three roundings relative to each square. The sum adds k, the division one and the root one more::

        |computed - variance| <= e**2 + gamma_{k+4} (variance + e**2) = d

    The root lies between ``sqrt(variance - d)`` and ``sqrt(variance + d)``, within one rounding.
    """
    count, dtype = x.size, x.dtype
    if not count:
        nothing = np.full(1, np.nan, wide(x).dtype)
        return Truth((bounded(nothing, dtype), bounded(nothing, dtype)))
    with np.errstate(invalid="ignore", over="ignore"):
        values_ = wide(x)
        mean = values_.mean(keepdims=True)
        variance = np.square(values_ - mean).mean(keepdims=True)
        terms = blocked_terms(count)
        condition, partial = np.abs(values_).mean(), partial_sums(values_) / count
        flushed = float(np.finfo(dtype).tiny) * (count + 1)
        # The division by n is rounded once.
        mean_expected = bounded(mean, dtype, condition=condition, partial=partial, terms=terms + 1, flushed=count + 1)
        error = mean_expected.margin
        squares = np.square(values_ - mean)
        summed = bounded(variance, dtype, condition=variance, partial=partial_sums(squares) / count, terms=terms)
        spread = error**2 + summed.margin + gamma(4, dtype) * (variance + error**2) + flushed
        std = np.sqrt(variance)
        margin = np.maximum(np.sqrt(variance + spread) - std, std - np.sqrt(np.maximum(variance - spread, 0)))
        margin = np.where(np.isfinite(margin), margin, 0) + gamma(1, dtype) * np.where(np.isfinite(std), std, 0)
    return Truth((mean_expected, Expected(std, dtype, margin)))


def _condition(pullback, inputs, cotangents):
    """With the cotangents m and s, an element has the cotangent ``m / n + s (x - mean) / (n std)``.

    A kernel computes the distance from a mean whose error is a multiple of mean|x|. The mean of the distances is zero,
    so it contributes next to nothing.
    """
    (x,), (mean_cotangent, std_cotangent) = inputs, map(np.abs, cotangents)
    distances = np.abs(x - x.mean())
    spread = distances + distances.mean() + 2 * np.abs(x).mean()
    return [(mean_cotangent + std_cotangent * spread / x.std()) / x.size]


def _edges(dtype):
    cases = {name: (vector,) for name, vector in vectors(dtype).items()}
    # The square of a large number overflows in every two-pass algorithm in the precision of the input.
    cases["huge"] = (np.sqrt(vectors(dtype)["huge"]) / 4,)
    cases["far_from_zero"] = ((1000 + np.random.default_rng(3).standard_normal(777)).astype(dtype),)
    cases["constant"] = (np.full(100, 0.1, dtype),)
    return cases


OPERATOR = Operator(
    name="mean_std",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((1,), x.dtype)] * 2,
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": mean_std,
        "numba_parallel": mean_std_parallel,
        "numba_cuda_callable": CudaCallable(mean_std_cuda),
        "numba_cuda_replay": CudaCallable(mean_std_cuda),
        "warp": WarpCallable(mean_std_warp, calls=4),
    },
    dtypes=("float32", "float64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)) + np.dtype(dtype).type(0.5),),
    edges=_edges,
    gradient=Gradient({0: lambda x: x.size + 12}, _condition, sizes=(257, 2100)),
    bytes_read=total_bytes,
    bytes_written=lambda x: 2 * x.dtype.itemsize,
    flops=lambda x: 4 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
