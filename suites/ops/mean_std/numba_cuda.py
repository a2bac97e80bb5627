"""Kernels of mean_std in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, kernel, load, partial_count, quotient, roomy_kernel
from suites.kernels.numba_cuda.launches import await_launch, let_next_begin
from suites.kernels.numba_cuda.vectors import NEIGHBOURS, aligned, neighbours
from suites.kernels.numba_cuda.warps import WARP, WARPS, shuffle_xor, sum_of_lanes

BATCH = 4
"""Vectors that a CUDA thread loads before it uses the first."""

ROOM = 4
"""Blocks of a multiprocessor: with more, threads have no registers for BATCH loads at a time."""

MOST_PARTS = 512
"""The most blocks: about as many as run at once, ROOM on each of 132 multiprocessors."""

GROUP_SLOTS = 3 * THREADS // WARP
"""The elements of shared memory that a block needs for the three numbers of each warp's group."""


@device
def merge(first, second):
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
    """Returns the result of :func:`merge` for two groups of equal size."""
    distance = second[1] - first[1]
    half = type(distance)(0.5)
    squares = first[2] + second[2] + distance * (distance * (half * first[0]))
    return first[0] + second[0], half * (first[1] + second[1]), squares


@device
def group_of_share(x, center, thread, threads):
    """The group of this thread's share of a vector, taken as by ``sum_of_share``, and its sum."""
    size, each = np.uint64(x.size), np.uint64(NEIGHBOURS)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    group, total = (zero, zero, zero), zero
    whole = size // each if aligned(x) else np.uint64(0)
    i, step = np.uint64(thread), np.uint64(threads)
    while i + step * np.uint64(BATCH - 1) < whole:
        p, q = neighbours(x, i * each), neighbours(x, (i + step) * each)
        r, s = neighbours(x, (i + step * np.uint64(2)) * each), neighbours(x, (i + step * np.uint64(3)) * each)
        (p, a), (q, b), (r, c), (s, d) = (
            group_of_four(p, center), group_of_four(q, center), group_of_four(r, center), group_of_four(s, center),
        )  # fmt: skip
        group = merge(group, same_size(same_size(p, q), same_size(r, s)))
        total += (a + b) + (c + d)
        i += step * np.uint64(BATCH)
    while i < whole:
        p, a = group_of_four(neighbours(x, i * each), center)
        group, total = merge(group, p), total + a
        i += step
    i = whole * each + np.uint64(thread)
    while i + step * np.uint64(3) < size:
        p, a = group_of_four(load(x, i, step), center)
        group, total = merge(group, p), total + a
        i += step * np.uint64(4)
    while i < size:
        group, total = merge(group, (one, x[i] - center, zero)), total + x[i]
        i += step
    return group, total


@device
def merged_with_lane(group, reach):
    """Merges the group of this thread with the group of another lane."""
    count, mean, squares = group
    return merge(group, (shuffle_xor(count, reach), shuffle_xor(mean, reach), shuffle_xor(squares, reach)))


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
    within ``std sqrt(n / m)`` of the mean of all n, for any numbers: each of m elements contributes to the variance.
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
    """One block merges the groups of the blocks of the launch before. Without groups there are no elements."""
    await_launch()
    shared = cuda.shared.array(WARPS, x.dtype)
    groups = cuda.shared.array(GROUP_SLOTS, x.dtype)
    zero = x.dtype.type(0)
    group, total = (zero, zero, zero), zero
    i, size, four = np.uint64(cuda.threadIdx.x) * np.uint64(4), np.uint64(parts.size), np.uint64(4)
    while i < size:
        count, mean, squares, part = neighbours(parts, i)
        group, total = merge(group, (count, mean, squares)), total + part
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
