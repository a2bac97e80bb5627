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
from suites.backends.numba_cuda import THREADS, add_up, cuda, kernel, load, partial_count, strided_sum, sum_lanes
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


@kernel
def add_up_squares(x, mean, sums):
    """``sums[b]`` becomes the sum of squared distances to the mean, of the elements of x that block b takes."""
    shared = cuda.shared.array(THREADS, x.dtype)
    center = mean[0]
    i, step, size = np.uint64(cuda.grid(1)), np.uint64(cuda.gridsize(1)), np.uint64(x.size)
    total = x.dtype.type(0)
    while i + step * np.uint64(3) < size:
        a, b, c, d = load(x, i, step)
        a, b, c, d = a - center, b - center, c - center, d - center
        total += (a * a + b * b) + (c * c + d * d)
        i += step * np.uint64(4)
    while i < size:
        distance = x[i] - center
        total += distance * distance
        i += step
    total = sum_lanes(shared, total, THREADS)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = total


@kernel
def finish_mean(sums, x, mean_out):
    """Computes the mean of x from partial sums, in one block."""
    shared = cuda.shared.array(THREADS, x.dtype)
    total = sum_lanes(shared, strided_sum(sums, cuda.threadIdx.x, THREADS), THREADS)
    if cuda.threadIdx.x == 0:
        mean_out[0] = total / x.dtype.type(x.size)


@kernel
def finish_std(sums, x, std_out):
    """Computes the standard deviation of x from partial sums of squares, in one block."""
    shared = cuda.shared.array(THREADS, x.dtype)
    total = sum_lanes(shared, strided_sum(sums, cuda.threadIdx.x, THREADS), THREADS)
    if cuda.threadIdx.x == 0:
        std_out[0] = math.sqrt(total / x.dtype.type(x.size))


def mean_std_cuda(x, mean_out, std_out, stream):
    blocks = partial_count(x.size)
    sums = cuda.device_array(blocks, dtype=x.dtype)
    add_up[blocks, THREADS, stream](x, sums)
    finish_mean[1, THREADS, stream](sums, x, mean_out)
    add_up_squares[blocks, THREADS, stream](x, mean_out, sums)
    finish_std[1, THREADS, stream](sums, x, std_out)


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
