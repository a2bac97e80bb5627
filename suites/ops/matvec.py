"""matvec: the dense product ``out = A @ x``; nominal size is the number of elements of A."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    WarpKernel,
    blocked_terms,
    bounded,
    exact,
    partial_sums,
    quantum,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, blocked_dot, short_dots
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    THREADS,
    WARP,
    WARPS,
    aligned,
    cuda,
    device,
    four_sums_of_lanes,
    kernel,
    lanes_of,
    neighbours,
    neighbours_once,
    roomy_kernel,
    sum_of_lanes,
)
from suites.backends.warp import SIDE, TILE, TILE_THREADS, blocks, scalar, wp


@numba.njit
def rows_of_product(A, x, first, last, out):
    """The rows from ``first`` up to ``last``."""
    if x.size <= BLOCK:
        short_dots(A, x, first, last, out)
    else:
        for row in range(first, last):
            out[row] = blocked_dot(A[row], x)


@numba.njit
def matvec(A, x, out):
    if A.shape[1] != x.size:
        raise ValueError("matvec: A must have as many columns as x has elements")
    rows_of_product(A, x, 0, out.size, out)


@numba.njit(parallel=True)
def matvec_parallel(A, x, out):
    if A.size < ONE_THREAD_BELOW:
        matvec(A, x, out)
    else:
        if A.shape[1] != x.size:
            raise ValueError("matvec: A must have as many columns as x has elements")
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            rows_of_product(A, x, out.size * part // parts, out.size * (part + 1) // parts, out)


@device
def dot_of_four(a, b):
    return (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3])


ROWS = 4
"""Rows that a group of CUDA threads multiplies at a time if there are many: it loads x once for all of them."""

FILLED = 1 << 17
"""About the threads that a GPU runs at once. If all have something to load all the time, they are enough."""


MOST = 64
"""Threads of a block, unless a row has more: small blocks spread evenly over the multiprocessors."""

SLOTS = ROWS * WARPS

LONG = 1024
"""The fewest columns of long rows: the shortest that were measured to be faster with :func:`matvec_long_rows`."""

VECTORS = 4
"""Vectors of a long row that a thread loads, and as many of x, before it uses the first."""


@kernel
def matvec_cuda(A, x, out):
    """The threads of one ``threadIdx.y`` are a group, and sum a row or ROWS neighbouring rows, in four chains."""
    shared = cuda.shared.array(SLOTS, out.dtype)
    rows, columns, lanes = np.uint64(out.size), np.uint64(A.shape[1]), np.uint64(cuda.blockDim.x)
    each, lane, step = np.uint64(NEIGHBOURS), np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x * NEIGHBOURS)
    one, two, three, last = np.uint64(1), np.uint64(2), np.uint64(3), rows - np.uint64(1)
    group = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    in_vectors = columns % each == np.uint64(0) and aligned(A) and aligned(x)
    is_single = np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.y) >= rows
    a = b = c = d = out.dtype.type(0)
    # Beyond the last row, a group repeats its work and writes nothing.
    if is_single:
        row, j = group, lane
        own = min(row, last)
        if in_vectors:
            first, j = own * columns, lane * each
            while j + step * three < columns:
                j1, j2, j3 = j + step, j + step * two, j + step * three
                v0, v1 = neighbours(A, first + j), neighbours(A, first + j1)
                v2, v3 = neighbours(A, first + j2), neighbours(A, first + j3)
                a += dot_of_four(v0, neighbours(x, j))
                b += dot_of_four(v1, neighbours(x, j1))
                c += dot_of_four(v2, neighbours(x, j2))
                d += dot_of_four(v3, neighbours(x, j3))
                j += step * np.uint64(4)
            while j < columns:
                a += dot_of_four(neighbours(A, first + j), neighbours(x, j))
                j += step
        while j < columns:
            a += A[own, j] * x[j]
            j += lanes
        a = sum_of_lanes(shared, (a + b) + (c + d), cuda.blockDim.x)
        if lane == np.uint64(0) and row < rows:
            out[row] = a
    else:
        row, j = group * np.uint64(ROWS), lane
        r0, r1, r2, r3 = min(row, last), min(row + one, last), min(row + two, last), min(row + three, last)
        if in_vectors:
            j = lane * each
            while j < columns:
                v = neighbours(x, j)
                v0, v1 = neighbours(A, r0 * columns + j), neighbours(A, r1 * columns + j)
                v2, v3 = neighbours(A, r2 * columns + j), neighbours(A, r3 * columns + j)
                a += dot_of_four(v0, v)
                b += dot_of_four(v1, v)
                c += dot_of_four(v2, v)
                d += dot_of_four(v3, v)
                j += step
        while j < columns:
            v0, v1, v2, v3 = A[r0, j], A[r1, j], A[r2, j], A[r3, j]
            a += v0 * x[j]
            b += v1 * x[j]
            c += v2 * x[j]
            d += v3 * x[j]
            j += lanes
        a, b, c, d = four_sums_of_lanes(shared, a, b, c, d, cuda.blockDim.x)
        if lane == np.uint64(0):
            if row < rows:
                out[row] = a
            if row + one < rows:
                out[row + one] = b
            if row + two < rows:
                out[row + two] = c
            if row + three < rows:
                out[row + three] = d


@roomy_kernel(2 * THREADS, 2)
def matvec_long_rows(A, x, out):
    """The threads of one ``threadIdx.y`` are a group, and sum a row, in four chains. The cache is left to x."""
    shared = cuda.shared.array(WARPS, out.dtype)
    rows, columns, lanes = np.uint64(out.size), np.uint64(A.shape[1]), np.uint64(cuda.blockDim.x)
    each, two, three = np.uint64(NEIGHBOURS), np.uint64(2), np.uint64(3)
    lane, step = np.uint64(cuda.threadIdx.x), lanes * each
    row = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    # Beyond the last row, a group repeats its work and writes nothing.
    own = min(row, rows - np.uint64(1))
    first, j = own * columns, lane
    a = b = c = d = out.dtype.type(0)
    if columns % each == np.uint64(0) and aligned(A) and aligned(x):
        j = lane * each
        while j + step * three < columns:
            i = first + j
            v0, v1 = neighbours_once(A, i), neighbours_once(A, i + step)
            v2, v3 = neighbours_once(A, i + step * two), neighbours_once(A, i + step * three)
            x0, x1 = neighbours(x, j), neighbours(x, j + step)
            x2, x3 = neighbours(x, j + step * two), neighbours(x, j + step * three)
            a += dot_of_four(v0, x0)
            b += dot_of_four(v1, x1)
            c += dot_of_four(v2, x2)
            d += dot_of_four(v3, x3)
            j += step * np.uint64(4)
        while j < columns:
            a += dot_of_four(neighbours_once(A, first + j), neighbours(x, j))
            j += step
    while j < columns:
        a += A[own, j] * x[j]
        j += lanes
    a = sum_of_lanes(shared, (a + b) + (c + d), cuda.blockDim.x)
    if lane == np.uint64(0) and row < rows:
        out[row] = a


def _select(inputs, outs):
    return matvec_cuda if inputs[0].shape[1] < LONG else matvec_long_rows


def _launch(inputs, outs):
    """As many threads share a row as it has vectors, at most a block; fewer if all rows keep a GPU busy anyway.

    All groups then run at once. With more threads than fit, the last blocks would run on a GPU that is half empty.
    Long rows have blocks enough to fill it, and fewer threads each.
    """
    rows, columns = inputs[0].shape
    if columns >= LONG:
        lanes = lanes_of(columns, VECTORS)
        height = max(MOST // lanes, 1)
        return {"grid": -(-rows // height), "block": (lanes, height)}
    lanes = lanes_of(columns)
    each = ROWS if rows * lanes >= FILLED * ROWS // 2 else 1
    while lanes > WARP and rows * lanes > FILLED * each:
        lanes //= 2
    height = max(MOST // lanes, 1)
    return {"grid": -(-rows // (height * each)), "block": (lanes, height)}


@functools.cache
def matvec_warp(dtype):
    """A block for each row. Its threads take turns at the columns, and each adds up sums of BLOCK products."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def matvec(A: wp.array2d(dtype=element), x: vector, out: vector):
        row, lane = wp.tid() // TILE_THREADS, wp.tid() % TILE_THREADS
        if lane < wp.block_dim():  # a block is one thread on the CPU
            elements, total = A[row], element(0)
            for start in range(lane, x.shape[0], BLOCK * wp.block_dim()):
                partial = element(0)
                for j in range(start, wp.min(start + BLOCK * wp.block_dim(), x.shape[0]), wp.block_dim()):
                    partial += elements[j] * x[j]
                total += partial
            wp.tile_store(out, wp.tile_sum(wp.tile(total)), offset=row)

    return matvec


def _launch_warp(inputs, outs):
    _check_columns(*inputs)
    threads = outs[0].shape[0] * TILE_THREADS
    return {"launch_dims": threads, "block_dim": TILE_THREADS, "output_dims": outs[0].shape}


@functools.cache
def matvec_tile(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def matvec(A: vector, x: vector, out: vector):
        row, columns = wp.tid(), x.shape[0]
        elements = A[row * columns : (row + 1) * columns]
        total = wp.tile_zeros(shape=TILE, dtype=element)
        for j in range(0, columns, TILE):
            own, shared = wp.tile_load(elements, shape=TILE, offset=j), wp.tile_load(x, shape=TILE, offset=j)
            total += wp.tile_map(wp.mul, own, shared)
        square = wp.tile_reshape(total * element(1), shape=(SIDE, SIDE))  # as in suites.backends.warp_blocks.add_up
        wp.tile_store(out, wp.tile_sum(wp.tile_sum(square, axis=0)), offset=row)

    return matvec


def matvec_in_tiles(inputs, outs):
    """Passes A as a vector: Warp's CPU code is slow with the strides of matrices."""
    _check_columns(*inputs)
    rows = outs[0].shape[0]
    product = bridge.jax_kernel(matvec_tile(str(outs[0].dtype)), **blocks(rows), output_dims=rows)
    return lambda A, x: product(A.reshape(-1), x)


def _check_columns(A, x):
    if A.shape[1] != x.shape[0]:
        raise ValueError("matvec: A must have as many columns as x has elements")


def _reference(A, x):
    # XLA:CPU has no integer dot; it lowers this to a loop.
    return [jnp.matmul(A, x, precision=jax.lax.Precision.HIGHEST)]


def _truth(A, x):
    if A.dtype.kind != "f":
        return Truth((exact(A @ x),))
    with np.errstate(invalid="ignore", over="ignore"):
        products = wide(A) * wide(x)
        product = products.sum(axis=1)
        condition = np.abs(products).sum(axis=1)
    count = x.size
    bound = {"condition": condition, "partial": partial_sums(products, 1), "quantum": quantum(A, axis=1) * quantum(x)}
    return Truth((bounded(product, A.dtype, ulps=1, **bound, terms=blocked_terms(count), flushed=count + 1),))


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    columns = math.isqrt(size)
    rows = size // columns
    return values(dtype, rows * columns, random).reshape(rows, columns), values(dtype, columns, random)


def _edges(dtype):
    """Each vector as the middle one of three rows, and as x. The other operand consists of ones."""
    cases = {}
    for name, vector in vectors(dtype).items():
        ones = np.ones((3, vector.size), dtype)
        ones[1] = vector
        cases[f"{name}_row"] = (ones, np.ones(vector.size, dtype))
        cases[f"{name}_x"] = (np.ones((2, vector.size), dtype), vector)
    cases["no_rows"] = (np.zeros((0, 5), dtype), np.ones(5, dtype))
    return cases


_COLUMNS = "ValueError: matvec: A must have as many columns"

OPERATOR = Operator(
    name="matvec",
    version=1,
    outputs=lambda A, x: [jax.ShapeDtypeStruct(A.shape[:1], A.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": matvec,
        "numba_parallel": matvec_parallel,
        "numba_cuda": CudaKernel(matvec_cuda, _launch, select=_select),
        "warp": WarpKernel(matvec_warp, _launch_warp),
        "warp_tile": WarpCallable(matvec_in_tiles, calls=1),
    },
    peers=peers.MATVEC,
    dtypes=("float32", "float64", "int32"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "wrong_columns",
            lambda: (np.zeros((3, 4), np.float32), np.zeros(5, np.float32)),
            {
                "jnp": Failure(TypeError, "contracting dimensions"),
                "numba": Failure(jax.errors.JaxRuntimeError, _COLUMNS),
                "numba_parallel": Failure(jax.errors.JaxRuntimeError, _COLUMNS),
                "warp": Failure(ValueError, "matvec: A must have as many columns"),
                "warp_tile": Failure(ValueError, "matvec: A must have as many columns"),
            },
        ),
    ),
    gradient=Gradient({0: 1, 1: lambda A, x: A.shape[0] + 1}),
    bytes_read=total_bytes,
    bytes_written=lambda A, x: A.shape[0] * A.dtype.itemsize,
    flops=lambda A, x: 2 * A.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24)),
)
