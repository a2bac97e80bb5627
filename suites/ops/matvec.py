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
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_dot, blocked_dot
from suites.backends.numba_cuda import THREADS, cuda, kernel, rows_of, sum_lanes
from suites.backends.warp import SIDE, TILE, TILE_THREADS, blocks, scalar, wp


@numba.njit
def matvec(A, x, out):
    if A.shape[1] != x.size:
        raise ValueError("matvec: A must have as many columns as x has elements")
    # Most rows have a single block; the loop over blocks would take longer than the row itself.
    if x.size <= BLOCK:
        for row in range(A.shape[0]):
            out[row] = block_dot(A[row], x)
    else:
        for row in range(A.shape[0]):
            out[row] = blocked_dot(A[row], x)


@numba.njit(parallel=True)
def matvec_parallel(A, x, out):
    if A.size < ONE_THREAD_BELOW:
        matvec(A, x, out)
    else:
        if A.shape[1] != x.size:
            raise ValueError("matvec: A must have as many columns as x has elements")
        for row in numba.prange(A.shape[0]):
            out[row] = blocked_dot(A[row], x)


@kernel
def matvec_cuda(A, x, out):
    """The threads of one ``threadIdx.y`` sum a row, in four independent chains."""
    shared = cuda.shared.array(THREADS, out.dtype)
    rows, columns = np.uint64(out.size), np.uint64(A.shape[1])
    lanes, height = np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise in sum_lanes
        row = first + np.uint64(cuda.threadIdx.y)
        a = b = c = d = out.dtype.type(0)
        if row < rows:
            j = np.uint64(cuda.threadIdx.x)
            while j + lanes * np.uint64(3) < columns:
                j1, j2, j3 = j + lanes, j + lanes * np.uint64(2), j + lanes * np.uint64(3)
                a += A[row, j] * x[j]
                b += A[row, j1] * x[j1]
                c += A[row, j2] * x[j2]
                d += A[row, j3] * x[j3]
                j += lanes * np.uint64(4)
            while j < columns:
                a += A[row, j] * x[j]
                j += lanes
        total = sum_lanes(shared, (a + b) + (c + d), cuda.blockDim.x)
        if cuda.threadIdx.x == 0 and row < rows:
            out[row] = total
        first += np.uint64(cuda.gridDim.x) * height


def _launch(inputs, outs):
    return rows_of(*inputs[0].shape)


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
        "numba_cuda": CudaKernel(matvec_cuda, _launch),
        "warp": WarpKernel(matvec_warp, _launch_warp),
        "warp_tile": WarpCallable(matvec_in_tiles, calls=1),
    },
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
