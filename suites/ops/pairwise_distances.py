"""pairwise_distances: ``out[i, j]`` is the Euclidean distance of rows i and j of X; nominal size is the size of out.

It is exactly zero between equal points, because coordinates are subtracted before they are squared. Products of rows
would be faster on matrix units, but not exact between equal points.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import CudaKernel, Expected, Operator, Sizes, Truth, WarpCallable, gamma, total_bytes, values, vectors, wide
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cpu_lanes import (
    add_products,
    lane_count,
    load_first_lanes,
    roots,
    store_first_lanes,
    zero_lanes,
)
from suites.backends.numba_cuda import cuda, kernel
from suites.backends.warp import blocks, scalar, wp

DIMENSIONS = 8
"""Coordinates of a point in a sample."""


@numba.njit
def distances_from(i, coordinates, out):
    """Row i of out. The sums of as many columns as there are lanes stay in a register until they are complete.

    Each coordinate is contiguous over all points, so that one load fills the lanes.
    """
    row, (axes, points) = out[i], coordinates.shape
    width, zero = lane_count(row), row.dtype.type(0)
    for j in range(0, points, width):
        squares = zero_lanes(row)
        for axis in range(axes):
            distance = load_first_lanes(coordinates, axis * points + j, points - j, zero) - coordinates[axis, i]
            squares = add_products(squares, distance, distance)
        store_first_lanes(row, j, points - j, roots(squares))


@numba.njit
def pairwise_distances(X, out):
    coordinates = X.T.copy()
    for i in range(out.shape[0]):
        distances_from(i, coordinates, out)


@numba.njit(parallel=True)
def pairwise_distances_parallel(X, out):
    if out.size < ONE_THREAD_BELOW:
        pairwise_distances(X, out)
    else:
        coordinates = X.T.copy()
        for i in numba.prange(out.shape[0]):
            distances_from(i, coordinates, out)


_SIDE = 32
"""Rows and columns of the tile of out that a block computes, four elements per thread. Columns lie along x."""

_HEIGHT = 8
_AXES = 8
"""Coordinates of a tile's points that shared memory holds at a time: one load for each thread of the block."""

_SHARED = (_AXES, _SIDE + 1)
"""One more than there are points: otherwise the threads that write the coordinates of a point would share a bank."""


@kernel
def pairwise_distances_cuda(X, out):
    across, down = cuda.shared.array(_SHARED, out.dtype), cuda.shared.array(_SHARED, out.dtype)
    size, axes = np.uint64(X.shape[0]), np.uint64(X.shape[1])
    x, y = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y)
    first_row = np.uint64(cuda.blockIdx.y) * np.uint64(_SIDE)
    first_column = np.uint64(cuda.blockIdx.x) * np.uint64(_SIDE)
    place = y * np.uint64(_SIDE) + x
    point, axis = place // np.uint64(_AXES), place % np.uint64(_AXES)  # neighbours in memory are neighbours in a warp
    y1, y2, y3 = y + np.uint64(_HEIGHT), y + np.uint64(2 * _HEIGHT), y + np.uint64(3 * _HEIGHT)
    a = b = c = d = nothing = out.dtype.type(0)
    first_axis = np.uint64(0)
    while first_axis < axes:  # the same for all threads of a block: they synchronise in the loop
        there = first_axis + axis
        row, column = first_row + point, first_column + point
        # Missing coordinates are zero in both points.
        down[axis, point] = X[row, there] if row < size and there < axes else nothing
        across[axis, point] = X[column, there] if column < size and there < axes else nothing
        cuda.syncthreads()
        for k in range(_AXES):
            here = across[k, x]
            distance = down[k, y] - here
            a += distance * distance
            distance = down[k, y1] - here
            b += distance * distance
            distance = down[k, y2] - here
            c += distance * distance
            distance = down[k, y3] - here
            d += distance * distance
        cuda.syncthreads()
        first_axis += np.uint64(_AXES)
    column, row = first_column + x, first_row + y
    if column < size:
        if row < size:
            out[row, column] = math.sqrt(a)
        if first_row + y1 < size:
            out[first_row + y1, column] = math.sqrt(b)
        if first_row + y2 < size:
            out[first_row + y2, column] = math.sqrt(c)
        if first_row + y3 < size:
            out[first_row + y3, column] = math.sqrt(d)


def _launch(inputs, outs):
    tiles = -(-outs[0].shape[0] // _SIDE)
    return {"grid": (tiles, tiles), "block": (_SIDE, _HEIGHT)}


TILE = 64
"""Elements of a tile of a Warp kernel: this many float64 still fit a CPU's vector registers."""


@functools.cache
def pairwise_distances_warp(dtype):
    """A block for each tile of a row. Arrays are vectors: Warp's CPU code is slow with the strides of matrices."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def squared_distance(a: element, b: element):
        return (a - b) * (a - b)

    @wp.func
    def root(value: element):
        return wp.sqrt(value)

    @wp.kernel(module="unique", enable_backward=False)
    def pairwise_distances(coordinates: vector, points: int, out: vector):
        tiles = (points + TILE - 1) // TILE
        i = wp.tid() // tiles
        place = (wp.tid() - i * tiles) * TILE
        squares = wp.tile_zeros(shape=TILE, dtype=element)
        for first in range(0, coordinates.shape[0], points):
            own = wp.tile_load(coordinates[first : first + points], shape=TILE, offset=place)
            here = wp.tile_broadcast(wp.tile_load(coordinates, shape=1, offset=first + i), shape=(TILE,))
            squares += wp.tile_map(squared_distance, own, here)
        wp.tile_store(out[i * points : (i + 1) * points], wp.tile_map(root, squares), offset=place)

    return pairwise_distances


def pairwise_distances_in_tiles(inputs, outs):
    """Passes the coordinates as one vector, coordinate after coordinate."""
    points = outs[0].shape[0]
    distances = bridge.jax_kernel(
        pairwise_distances_warp(str(outs[0].dtype)),
        **blocks(points * -(-points // TILE), TILE),
        output_dims=points * points,
    )
    return lambda X: [distances(X.T.reshape(-1), points)[0].reshape(points, points)]


def _reference(X):
    # Coordinate by coordinate, so that XLA keeps no array of pairs of points.
    squares = jnp.zeros((X.shape[0], X.shape[0]), X.dtype)
    for axis in range(X.shape[1]):
        squares += jnp.square(X[:, None, axis] - X[None, :, axis])
    return [jnp.sqrt(squares)]


_ROOT = 4
"""The error of a square root in units of u: on GPUs it is exact to 2 ulp."""


def _truth(X):
    """The distance has a small relative error, however near two points are.

    The difference of two coordinates has one rounding, relative to that difference. Its square has this rounding twice
    and one of its own, and passes through at most d - 1 additions. All terms are positive, so a sum s is off by
    ``gamma_{d+2} s``. Its root is off by half of that, since ``|sqrt(1 + t) - 1| <= |t| / 2 + t**2 / 2``: at most by
    ``gamma_k sqrt(s)`` with ``k = (d + 2) / 2 + 1``. The rounding of the root is added.

    A coordinate or a difference that is flushed to zero moves a point by at most 3 tiny along each axis. A square that
    is flushed to zero or subnormal takes at most ``tiny`` from s. Between equal points all differences are zero, and
    nothing is rounded.
    """
    count, axes = X.shape
    points, info = wide(X), np.finfo(X.dtype)
    squares = np.zeros((count, count), points.dtype)
    equal = np.ones((count, count), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        for axis in range(axes):
            difference = points[:, None, axis] - points[None, :, axis]
            squares += np.square(difference)
            equal &= difference == 0
        value = np.sqrt(squares)
        lost = 2 * axes * float(info.tiny)
        flushed = np.maximum(np.sqrt(squares + lost) - value, value - np.sqrt(np.maximum(squares - lost, 0)))
        rounded = gamma(-(-(axes + 2) // 2) + 1 + _ROOT, X.dtype) * value
        margin = np.where(equal | ~np.isfinite(value), 0, rounded + flushed + 3 * axes * float(info.tiny))
    return Truth((Expected(value, X.dtype, margin),))


def _sample(dtype, size, seed):
    points = max(1, math.isqrt(size))
    return (values(dtype, points * DIMENSIONS, np.random.default_rng(seed)).reshape(points, DIMENSIONS),)


def _edges(dtype):
    """Points and coordinates that fill no tile, points near each other, and special values in one point."""
    random = np.random.default_rng(3)

    def points(count, axes):
        return values(dtype, count * axes, random).reshape(count, axes)

    near = np.full((7, 3), 1000.1, dtype)
    for i in range(1, 7):
        near[i] = np.nextafter(near[i - 1], np.asarray(2000, dtype))
    cases = {
        "no_points": points(0, 3),
        "one_point": points(1, 3),
        "one_coordinate": points(33, 1),
        "no_coordinates": points(5, 0),
        "many_coordinates": points(5, 41),
        "odd_points": points(67, 9),
        "more_points_than_a_tile": points(259, 3),
        "equal_points": np.repeat(points(3, 5), 20, axis=0),
        "neighbouring_numbers": near,
        "far_from_zero": 10000 + points(40, 3),
    }
    for name in ("nan", "inf", "both_infs", "minus_zero", "subnormal", "tiny", "huge"):
        vector = vectors(dtype)[name]
        special = np.ones((vector.size, 3), dtype)
        # The sum of squares of larger numbers overflows.
        special[:, 1] = np.sqrt(vector) / 4 if name == "huge" else vector
        cases[name] = special
    return {name: (X,) for name, X in cases.items()}


OPERATOR = Operator(
    name="pairwise_distances",
    version=1,
    outputs=lambda X: [jax.ShapeDtypeStruct((X.shape[0], X.shape[0]), X.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": pairwise_distances,
        "numba_parallel": pairwise_distances_parallel,
        "numba_cuda": CudaKernel(pairwise_distances_cuda, _launch),
        "warp": WarpCallable(pairwise_distances_in_tiles, calls=1),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    gradient=None,  # the derivative of the root is infinite between a point and itself
    bytes_read=total_bytes,
    bytes_written=lambda X: X.shape[0] ** 2 * X.dtype.itemsize,
    flops=lambda X: 3 * X.size * X.shape[0],
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
