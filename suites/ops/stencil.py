"""stencil: one explicit step of the heat equation on a grid, with the five-point Laplacian. The rim is copied.

``out[i, j] = u[i, j] + rate[0] * (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4 * u[i, j])``. Nominal size is the
number of cells.
"""

import functools
import math

import jax
import numba
import numpy as np

import bridge
from suites import (
    CudaKernel,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    WarpKernel,
    bounded,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW, copy_to
from suites.backends.numba_cuda import LOADS, THREADS, cuda, device, kernel
from suites.backends.warp import TILE, blocks, scalar, tile_count, wp

_CHAIN = 6
"""Roundings on the way from a cell to the result: three additions, then one of each of -, * and +."""


@numba.njit
def stencil_row(u, rate, out, i):
    """One row, which may be a rim of the grid."""
    rows, columns = u.shape
    if i == 0 or i == rows - 1 or columns < 3:
        copy_to(out[i], u[i])
    else:
        four = u.dtype.type(4)
        # Rows are separate arrays, so that LLVM sees that no column counts from the end.
        above, row, below, new = u[i - 1], u[i], u[i + 1], out[i]
        new[0] = row[0]
        for j in range(1, columns - 1):
            new[j] = row[j] + rate * ((above[j] + below[j]) + (row[j - 1] + row[j + 1]) - four * row[j])
        new[columns - 1] = row[columns - 1]


@numba.njit
def stencil(u, rate, out):
    for i in range(u.shape[0]):
        stencil_row(u, rate[0], out, i)


@numba.njit(parallel=True)
def stencil_parallel(u, rate, out):
    if u.size < ONE_THREAD_BELOW:
        stencil(u, rate, out)
    else:
        for i in numba.prange(u.shape[0]):
            stencil_row(u, rate[0], out, i)


@device
def heated(center, above, below, left, right, rate, four):
    return center + rate * ((above + below) + (left + right) - four * center)


@kernel
def stencil_cuda(u, rate, out):
    """Columns lie along x. Each thread takes LOADS consecutive rows, which share their vertical neighbours.

    It goes on to further rows if there are too few blocks along y.
    """
    rows, columns = np.uint64(u.shape[0]), np.uint64(u.shape[1])
    speed, four, one = rate[0], u.dtype.type(4), np.uint64(1)
    j = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if j >= columns:
        return
    inner = j > np.uint64(0) and j + one < columns
    i = (np.uint64(cuda.blockIdx.y) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)) * np.uint64(LOADS)
    while i < rows:
        if inner and i > np.uint64(0) and i + np.uint64(LOADS) < rows:
            i1, i2, i3 = i + one, i + np.uint64(2), i + np.uint64(3)
            west, east = j - one, j + one
            above, a, b, c, d, below = u[i - one, j], u[i, j], u[i1, j], u[i2, j], u[i3, j], u[i + np.uint64(4), j]
            a_west, b_west, c_west, d_west = u[i, west], u[i1, west], u[i2, west], u[i3, west]
            a_east, b_east, c_east, d_east = u[i, east], u[i1, east], u[i2, east], u[i3, east]
            out[i, j] = heated(a, above, b, a_west, a_east, speed, four)
            out[i1, j] = heated(b, a, c, b_west, b_east, speed, four)
            out[i2, j] = heated(c, b, d, c_west, c_east, speed, four)
            out[i3, j] = heated(d, c, below, d_west, d_east, speed, four)
        else:
            row = i
            while row < rows and row < i + np.uint64(LOADS):
                if inner and row > np.uint64(0) and row + one < rows:
                    out[row, j] = heated(
                        u[row, j], u[row - one, j], u[row + one, j], u[row, j - one], u[row, j + one], speed, four
                    )
                else:
                    out[row, j] = u[row, j]
                row += one
        i += np.uint64(cuda.gridDim.y) * np.uint64(cuda.blockDim.y) * np.uint64(LOADS)


def _launch(inputs, outs):
    """The launch of blocks as wide as the rows, up to the largest width: a warp then reads 32 neighbours."""
    rows, columns = outs[0].shape
    width = 32
    while width < THREADS and width < columns:
        width *= 2
    height = THREADS // width
    return {"grid": (-(-columns // width), min(-(-rows // (height * LOADS)), 65535)), "block": (width, height)}


@functools.cache
def stencil_warp(dtype):
    real = scalar(dtype)

    @wp.kernel(module="unique")
    def stencil(u: wp.array2d(dtype=real), rate: wp.array(dtype=real), out: wp.array2d(dtype=real)):
        i, j = wp.tid()
        center = u[i, j]
        if i == 0 or j == 0 or i == u.shape[0] - 1 or j == u.shape[1] - 1:
            out[i, j] = center
        else:
            around = (u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1])
            out[i, j] = center + rate[0] * (around - real(4.0) * center)

    return stencil


@functools.cache
def stencil_tile(dtype):
    """A block for each tile of a row's inner cells. The first block also copies the ends of the row."""
    real = scalar(dtype)

    @wp.kernel(module="unique")
    def stencil(
        u: wp.array(dtype=real), rate: wp.array(dtype=real), rows: int, columns: int, out: wp.array(dtype=real)
    ):
        tiles = (columns + TILE - 1) // TILE
        i = wp.tid() // tiles
        place = (wp.tid() - i * tiles) * TILE
        first, last = i * columns, (i + 1) * columns - 1
        if i == 0 or i == rows - 1 or columns < 3:
            row = wp.tile_load(u[first : last + 1], shape=TILE, offset=place)
            wp.tile_store(out[first : last + 1], row, offset=place)
        else:
            center = wp.tile_load(u[first + 1 : last], shape=TILE, offset=place)
            above = wp.tile_load(u[first - columns + 1 : last - columns], shape=TILE, offset=place)
            below = wp.tile_load(u[first + columns + 1 : last + columns], shape=TILE, offset=place)
            left = wp.tile_load(u[first : last - 1], shape=TILE, offset=place)
            right = wp.tile_load(u[first + 2 : last + 1], shape=TILE, offset=place)
            heat = (above + below) + (left + right) - center * real(4.0)
            wp.tile_store(out[first + 1 : last], center + heat * rate[0], offset=place)
            if place == 0:
                wp.tile_store(out, wp.tile_load(u, shape=1, offset=first), offset=first)
                wp.tile_store(out, wp.tile_load(u, shape=1, offset=last), offset=last)

    return stencil


def stencil_in_tiles(inputs, outs):
    """Passes the grid as a vector: Warp's CPU code is slow with the strides of matrices."""
    rows, columns = outs[0].shape
    step = bridge.jax_kernel(
        stencil_tile(str(outs[0].dtype)), **blocks(rows * tile_count(columns)), output_dims=rows * columns
    )
    return lambda u, rate: [step(u.reshape(-1), rate, rows, columns)[0].reshape(u.shape)]


def _reference(u, rate):
    around = (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])
    center = u[1:-1, 1:-1]
    if not center.size:
        return [u]
    return [u.at[1:-1, 1:-1].set(center + rate[0] * (around - 4 * center))]


def _truth(u, rate):
    inner = (slice(1, -1), slice(1, -1))
    value = wide(u)
    condition = np.zeros_like(value)  # the rim is copied
    with np.errstate(invalid="ignore", over="ignore"):
        if value[inner].size:
            condition[inner] = np.abs(value[inner]) + np.abs(wide(rate)) * (
                _around(np.abs(value)) + 4 * np.abs(value[inner])
            )
            value[inner] += wide(rate) * (_around(value) - 4 * value[inner])
    return Truth((bounded(value, u.dtype, condition=condition, terms=_CHAIN, flushed=_CHAIN + 1),))


def _around(u):
    """The sum of the four neighbours of each inner cell."""
    return (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])


def _condition(pullback, inputs, cotangents):
    """A cell's cotangent comes from its own new value and from its inner neighbours, with absolute weights."""
    (u, rate), (cotangent,) = map(np.abs, inputs), map(np.abs, cotangents)
    inner = np.zeros_like(cotangent)
    inner[1:-1, 1:-1] = cotangent[1:-1, 1:-1]
    laplacian = _around(u) + 4 * u[1:-1, 1:-1]
    return cotangent + rate * (_around(np.pad(inner, 1)) + 4 * inner), np.sum(inner[1:-1, 1:-1] * laplacian)


def _squares(pullback, inputs, cotangents):
    """The squares of the same terms."""
    (u, rate), cotangent = inputs, cotangents[0]
    inner = np.zeros_like(cotangent)
    inner[1:-1, 1:-1] = cotangent[1:-1, 1:-1] ** 2
    laplacian = _around(u**2) + 16 * u[1:-1, 1:-1] ** 2
    return cotangent**2 + rate**2 * (_around(np.pad(inner, 1)) + 16 * inner), np.sum(inner[1:-1, 1:-1] * laplacian)


def _shape(size):
    columns = math.isqrt(size)
    return size // columns, columns


def _sample(dtype, size, seed):
    shape = _shape(size)
    return values(dtype, math.prod(shape), np.random.default_rng(seed)).reshape(shape), np.full(1, 0.2, dtype)


def _edges(dtype):
    """Each vector as a row of inner cells among ones, and grids that are all rim or nearly all rim."""
    rate = np.full(1, 0.2, dtype)
    random = np.random.default_rng(1)
    cases = {}
    for name, vector in vectors(dtype).items():
        u = np.ones((5, vector.size + 2), dtype)
        # The sum over the neighbours of a larger number overflows.
        u[2, 1:-1] = vector / 16 if name == "huge" else vector
        cases[name] = (u, rate)
    for name, shape in {
        "no_cells": (0, 7),
        "one_cell": (1, 1),
        "two_rows": (2, 9),
        "two_columns": (9, 2),
        "one_inner_cell": (3, 3),
        "wide": (3, 301),
        "tall": (301, 3),
    }.items():
        cases[name] = (values(dtype, math.prod(shape), random).reshape(shape), rate)
    cases["nan_rate"] = (np.ones((4, 4), dtype), np.full(1, np.nan, dtype))
    return cases


OPERATOR = Operator(
    name="stencil",
    version=1,
    outputs=lambda u, rate: [jax.ShapeDtypeStruct(u.shape, u.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": stencil,
        "numba_parallel": stencil_parallel,
        "numba_cuda": CudaKernel(stencil_cuda, _launch),
        "warp": WarpKernel(stencil_warp),
        "warp_tile": WarpCallable(stencil_in_tiles, calls=1),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    gradient=Gradient({0: 5 + _CHAIN, 1: lambda u, rate: u.size + _CHAIN}, _condition, _squares),
    bytes_read=total_bytes,
    bytes_written=lambda u, rate: total_bytes(u),
    flops=lambda u, rate: 7 * u.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,)),
)
