"""hadamard: ``out[i, j] = A[i, j] * B[i, j]``; nominal size is the number of elements of A."""

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
    bounded,
    exact,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import LOADS, THREADS, cuda, kernel, widened
from suites.backends.warp import per_stream_tile, scalar, stream, wp


@numba.njit
def hadamard(A, B, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = A[i, j] * B[i, j]


@numba.njit(parallel=True)
def hadamard_parallel(A, B, out):
    if out.size < ONE_THREAD_BELOW:
        hadamard(A, B, out)
    else:
        for i in numba.prange(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = A[i, j] * B[i, j]


@kernel
def hadamard_cuda(A, B, out):
    """Columns lie along x. Each thread takes four rows, then further rows if there are too few blocks along y."""
    rows, columns = np.uint64(out.shape[0]), np.uint64(out.shape[1])
    height = np.uint64(cuda.blockDim.y)
    j = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    i = np.uint64(cuda.blockIdx.y) * height * np.uint64(LOADS) + np.uint64(cuda.threadIdx.y)
    if j >= columns:
        return
    while i < rows:
        if i + height * np.uint64(3) < rows:
            i1, i2, i3 = i + height, i + height * np.uint64(2), i + height * np.uint64(3)
            a0, a1, a2, a3 = widened(A[i, j]), widened(A[i1, j]), widened(A[i2, j]), widened(A[i3, j])
            b0, b1, b2, b3 = widened(B[i, j]), widened(B[i1, j]), widened(B[i2, j]), widened(B[i3, j])
            out[i, j] = a0 * b0
            out[i1, j] = a1 * b1
            out[i2, j] = a2 * b2
            out[i3, j] = a3 * b3
        else:
            last = i + height * np.uint64(LOADS)
            row = i
            while row < rows and row < last:
                out[row, j] = widened(A[row, j]) * widened(B[row, j])
                row += height
        i += np.uint64(cuda.gridDim.y) * height * np.uint64(LOADS)


def _launch(inputs, outs):
    """The launch of blocks as wide as the rows, up to the largest width: a warp then reads 32 neighbours."""
    rows, columns = outs[0].shape
    width = 32
    while width < THREADS and width < columns:
        width *= 2
    height = THREADS // width
    return {"grid": (-(-columns // width), min(-(-rows // (height * LOADS)), 65535)), "block": (width, height)}


@functools.cache
def hadamard_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def hadamard(A: vector, B: vector, out: vector):
        i = wp.tid()
        out[i] = A[i] * B[i]

    return hadamard


def _flat(inputs, outs):
    """The matrices as vectors: an index of two dimensions would take a division in each thread."""
    product = bridge.jax_kernel(hadamard_warp(str(outs[0].dtype)))
    return lambda A, B: [product(A.reshape(-1), B.reshape(-1))[0].reshape(A.shape)]


@functools.cache
def hadamard_tiles(dtype):
    element = scalar(dtype)

    @wp.func
    def product(a: element, b: element):
        return a * b

    return stream(product, dtype, 2)


def _flat_tiles(inputs, outs):
    """The matrices as vectors, as in :func:`_flat`."""
    flat = [jax.ShapeDtypeStruct((out.size,), out.dtype) for out in outs]
    product = bridge.jax_kernel(hadamard_tiles(str(outs[0].dtype)), **per_stream_tile(inputs, flat))
    return lambda A, B: [product(A.reshape(-1), B.reshape(-1))[0].reshape(A.shape)]


def _truth(A, B):
    if A.dtype.kind != "f":
        return Truth((exact(A * B),))  # integers wrap around
    with np.errstate(invalid="ignore", over="ignore"):
        # The product of an operand that is flushed to zero is zero.
        flushed = 2 + np.maximum(np.abs(wide(A)), np.abs(wide(B))).max(initial=0, where=np.isfinite(wide(A) * wide(B)))
        return Truth((bounded(wide(A) * wide(B), A.dtype, ulps=1, flushed=float(flushed)),))


def _shape(size):
    columns = math.isqrt(size)
    return size // columns, columns


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    shape = _shape(size)
    return tuple(values(dtype, math.prod(shape), random).reshape(shape) for _ in range(2))


def _edges(dtype):
    cases = {}
    for name, vector in vectors(dtype).items():
        pair = np.stack([vector, vector[::-1]])
        cases[name] = (pair, np.ones_like(pair))
    wide_, tall = values(dtype, 3 * 301, np.random.default_rng(1)), values(dtype, 3 * 301, np.random.default_rng(2))
    return cases | {
        "wide": (wide_.reshape(3, 301), tall.reshape(3, 301)),
        "tall": (wide_.reshape(301, 3), tall.reshape(301, 3)),
        "no_columns": (np.zeros((5, 0), dtype), np.zeros((5, 0), dtype)),
    }


OPERATOR = Operator(
    name="hadamard",
    version=1,
    outputs=lambda A, B: [jax.ShapeDtypeStruct(A.shape, A.dtype)],
    reference=lambda A, B: [A * B],
    truth=_truth,
    kernels={
        "numba": hadamard,
        "numba_parallel": hadamard_parallel,
        "numba_cuda": CudaKernel(hadamard_cuda, _launch),
        "warp": WarpCallable(_flat, calls=1),
        "warp_tile": WarpCallable(_flat_tiles, calls=1),
        "cuda_raw": cuda_raw.elementwise("out[i] = a[i] * b[i];", ("a", "b")),
        "pallas": pallas.elementwise(lambda a, b: [a * b]),
    },
    dtypes=("float32", "float64", "int32", "float16"),
    sample=_sample,
    edges=_edges,
    gradient=Gradient({0: 1, 1: 1}),
    bytes_read=total_bytes,
    bytes_written=lambda A, B: total_bytes(A),
    flops=lambda A, B: A.size,
    elementwise=True,
    shape=_shape,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
