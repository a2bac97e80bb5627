"""abs_two_pass: ``out[i] = sqrt(x[i] ** 2)``, the magnitude of x, with a temporary array of squares."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaCallable,
    CudaKernel,
    Expected,
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
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import (
    THREADS,
    aligned,
    cuda,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    store_neighbours,
    tile_count,
)
from suites.backends.warp import per_stream_tile, scalar, stream, wp


@numba.njit
def abs_two_pass(x, out):
    squares = np.empty_like(x)
    for i in range(x.size):
        squares[i] = x[i] * x[i]
    for i in range(x.size):
        out[i] = math.sqrt(squares[i])


@numba.njit(parallel=True)
def abs_two_pass_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        abs_two_pass(x, out)
    else:
        squares = np.empty_like(x)
        for i in numba.prange(x.size):
            squares[i] = x[i] * x[i]
        for i in numba.prange(x.size):
            out[i] = math.sqrt(squares[i])


@kernel
def square(x, squares):
    i, stop, full = neighbour_tile(x.size)
    if full and aligned(x) and aligned(squares):
        a, b, c, d = neighbours(x, i)
        store_neighbours(squares, i, (a * a, b * b, c * c, d * d))
    else:
        while i < stop:
            squares[i] = x[i] * x[i]
            i += np.uint64(1)


@kernel
def square_root(squares, out):
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(squares) and aligned(out):
        a, b, c, d = neighbours(squares, i)
        store_neighbours(out, i, (math.sqrt(a), math.sqrt(b), math.sqrt(c), math.sqrt(d)))
    else:
        while i < stop:
            out[i] = math.sqrt(squares[i])
            i += np.uint64(1)


@kernel
def abs_in_one_pass(x, out):
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(out):
        a, b, c, d = neighbours(x, i)
        store_neighbours(out, i, (math.sqrt(a * a), math.sqrt(b * b), math.sqrt(c * c), math.sqrt(d * d)))
    else:
        while i < stop:
            out[i] = math.sqrt(x[i] * x[i])
            i += np.uint64(1)


def abs_two_pass_cuda(x, out, stream):
    if x.size:
        blocks = tile_count(x.size)
        squares = cuda.device_array(x.size, dtype=x.dtype)
        square[blocks, THREADS, stream](x, squares)
        square_root[blocks, THREADS, stream](squares, out)


@functools.cache
def square_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def square(x: vector, squares: vector):
        i = wp.tid()
        squares[i] = x[i] * x[i]

    return square


@functools.cache
def square_root_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def square_root(squares: vector, out: vector):
        i = wp.tid()
        out[i] = wp.sqrt(squares[i])

    return square_root


def abs_two_pass_warp(inputs, outs):
    dtype = str(outs[0].dtype)
    first, second = bridge.jax_kernel(square_warp(dtype)), bridge.jax_kernel(square_root_warp(dtype))
    return lambda x: second(*first(x))


@functools.cache
def abs_tiles(dtype):
    """One pass: the square stays in a register."""
    element = scalar(dtype)

    @wp.func
    def root_of_square(x: element):
        return wp.sqrt(x * x)

    return stream(root_of_square, dtype, 1)


def _truth(x):
    """The square has one rounding. Half of its relative error reaches the root, which adds its own rounding.

    A square below the smallest normal number may be flushed to zero, and then the result is zero.
    """
    value = np.abs(wide(x))
    expected = bounded(value, x.dtype, ulps=2)
    with np.errstate(over="ignore"):
        small = value * value < 2 * float(np.finfo(x.dtype).tiny)
    return Truth((Expected(value, x.dtype, expected.margin + np.where(small, value, 0)),))


def _edges(dtype):
    cases = {name: (vector,) for name, vector in vectors(dtype).items()}
    # The square of a larger number overflows.
    cases["huge"] = (np.sqrt(vectors(dtype)["huge"]) / 2,)
    return cases


OPERATOR = Operator(
    name="abs_two_pass",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [jnp.sqrt(jnp.square(x))],
    truth=_truth,
    kernels={
        "numba": abs_two_pass,
        "numba_parallel": abs_two_pass_parallel,
        "numba_cuda": CudaKernel(abs_in_one_pass, neighbour_tiles),
        "numba_cuda_callable": CudaCallable(abs_two_pass_cuda),
        "numba_cuda_replay": CudaCallable(abs_two_pass_cuda),
        "warp": WarpCallable(abs_two_pass_warp, calls=2),
        "warp_tile": WarpKernel(abs_tiles, per_stream_tile),
    },
    dtypes=("float32", "float64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=_edges,
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    gradient=None,  # the root of a square has no derivative at 0
    flops=lambda x: 2 * x.size,
    elementwise=True,
    remarks="two passes by design in numba_cuda_callable, numba_cuda_replay and warp: they show kernels that share a "
    "temporary array; warp_tile and numba_cuda make one",
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
