"""add: ``out[i] = x[i] + y[i]``."""

import functools

import jax
import numba
import numpy as np

from suites import (
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Truth,
    WarpKernel,
    bounded,
    exact,
    total_bytes,
    value_errors,
    values,
    vectors,
    wide,
)
from suites.backends import cuda_raw, pallas
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import (
    aligned,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    store_neighbours,
    widened,
)
from suites.backends.warp import per_stream_tile, scalar, stream, wp


@numba.njit
def add(x, y, out):
    if x.size != out.size or y.size != out.size:
        raise ValueError("add: x and y must have one length")
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit(parallel=True)
def add_parallel(x, y, out):
    if x.size != out.size or y.size != out.size:
        raise ValueError("add: x and y must have one length")
    if out.size < ONE_THREAD_BELOW:
        add(x, y, out)
    else:
        for i in numba.prange(out.size):
            out[i] = x[i] + y[i]


@kernel
def add_cuda(x, y, out):
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(x) and aligned(y) and aligned(out):
        a, b = neighbours(x, i), neighbours(y, i)
        store_neighbours(out, i, (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]))
    else:
        while i < stop:
            out[i] = widened(x[i]) + widened(y[i])
            i += np.uint64(1)


@functools.cache
def add_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def add(x: vector, y: vector, out: vector):
        i = wp.tid()
        out[i] = x[i] + y[i]

    return add


def _launch_warp(inputs, outs):
    if inputs[0].shape != inputs[1].shape:
        raise ValueError("add: x and y must have one length")
    return {}


def _launch_tiles(inputs, outs):
    return _launch_warp(inputs, outs) | per_stream_tile(inputs, outs)


@functools.cache
def add_tiles(dtype):
    element = scalar(dtype)

    @wp.func
    def total(a: element, b: element):
        return a + b

    return stream(total, dtype, 2)


def _truth(x, y):
    if x.dtype.kind != "f":
        return Truth((exact(x + y),))  # integers wrap around
    with np.errstate(invalid="ignore"):
        total = wide(x) + wide(y)
    return Truth((bounded(total, x.dtype, ulps=1, flushed=2, signed_zero=True),))


def _edges(dtype):
    return {name: (vector, vector[::-1].copy()) for name, vector in vectors(dtype).items()}


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return values(dtype, size, random), values(dtype, size, random)


OPERATOR = Operator(
    name="add",
    version=1,
    outputs=lambda x, y: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x, y: [x + y],
    truth=_truth,
    kernels={
        "numba": add,
        "numba_parallel": add_parallel,
        "numba_cuda": CudaKernel(add_cuda, neighbour_tiles),
        "warp": WarpKernel(add_warp, _launch_warp),
        "warp_tile": WarpKernel(add_tiles, _launch_tiles),
        "cuda_raw": cuda_raw.elementwise("out[i] = x[i] + y[i];", ("x", "y")),
        "pallas": pallas.elementwise(lambda x, y: [x + y]),
    },
    dtypes=("float32", "float64", "int32", "int64", "float16"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.zeros(4, np.float32), np.zeros(3, np.float32)),
            {
                "jnp": Failure(TypeError, "incompatible shapes"),
                **value_errors("add: x and y must have one length", in_launches=("warp", "warp_tile")),
            },
        ),
    ),
    gradient=Gradient({0: 0, 1: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda x, y: total_bytes(x),
    flops=lambda x, y: x.size,
    elementwise=True,
)
