"""scale_add: ``out[i] = a[i] * b[i] + c[i]``."""

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
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    exact,
    quantum,
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
from suites.backends.warp import STREAM_TILE, per_stream_tile, scalar, wp


@numba.njit
def scale_add(a, b, c, out):
    if a.size != out.size or b.size != out.size or c.size != out.size:
        raise ValueError("scale_add: a, b and c must have one length")
    for i in range(out.size):
        out[i] = a[i] * b[i] + c[i]


@numba.njit(parallel=True)
def scale_add_parallel(a, b, c, out):
    if a.size != out.size or b.size != out.size or c.size != out.size:
        raise ValueError("scale_add: a, b and c must have one length")
    if out.size < ONE_THREAD_BELOW:
        scale_add(a, b, c, out)
    else:
        for i in numba.prange(out.size):
            out[i] = a[i] * b[i] + c[i]


@kernel
def scale_add_cuda(a, b, c, out):
    i, stop, full = neighbour_tile(out.size)
    if full and aligned(a) and aligned(b) and aligned(c) and aligned(out):
        x, y, z = neighbours(a, i), neighbours(b, i), neighbours(c, i)
        store_neighbours(out, i, (x[0] * y[0] + z[0], x[1] * y[1] + z[1], x[2] * y[2] + z[2], x[3] * y[3] + z[3]))
    else:
        while i < stop:
            out[i] = widened(a[i]) * widened(b[i]) + widened(c[i])
            i += np.uint64(1)


@functools.cache
def scale_add_warp(dtype):
    real = scalar(dtype)

    @wp.kernel(module="unique")
    def scale_add(a: wp.array(dtype=real), b: wp.array(dtype=real), c: wp.array(dtype=real), out: wp.array(dtype=real)):
        i = wp.tid()
        out[i] = a[i] * b[i] + c[i]

    return scale_add


@functools.cache
def scale_add_tiles(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique")
    def scale_add(a: vector, b: vector, c: vector, out: vector):
        first = wp.tid() * STREAM_TILE
        if first + STREAM_TILE <= out.shape[0]:
            x = wp.tile_load(a, shape=STREAM_TILE, offset=first, bounds_check=False)
            y = wp.tile_load(b, shape=STREAM_TILE, offset=first, bounds_check=False)
            z = wp.tile_load(c, shape=STREAM_TILE, offset=first, bounds_check=False)
            wp.tile_store(out, wp.tile_map(wp.mul, x, y) + z, offset=first, bounds_check=False)
        else:
            last_x = wp.tile_load(a, shape=STREAM_TILE, offset=first)
            last_y = wp.tile_load(b, shape=STREAM_TILE, offset=first)
            last_z = wp.tile_load(c, shape=STREAM_TILE, offset=first)
            wp.tile_store(out, wp.tile_map(wp.mul, last_x, last_y) + last_z, offset=first)

    return scale_add


def _truth(a, b, c):
    """There are two roundings, or one if the product is not rounded before it is added."""
    if a.dtype.kind != "f":
        return Truth((exact(a * b + c),))  # integers wrap around
    with np.errstate(invalid="ignore", over="ignore"):
        product = wide(a) * wide(b)
        value = product + wide(c)
        condition = np.abs(product) + np.abs(wide(c))
        # The product with a factor that is flushed to zero is zero.
        factor = np.maximum(np.abs(wide(a)), np.abs(wide(b))).max(initial=0, where=np.isfinite(product))
    whole = np.minimum(quantum(a) * quantum(b), quantum(c))
    return Truth((bounded(value, a.dtype, condition=condition, terms=2, flushed=3 + float(factor), quantum=whole),))


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return values(dtype, size, random), values(dtype, size, random), values(dtype, size, random)


def _edges(dtype):
    cases = {}
    for name, vector in vectors(dtype).items():
        cases[name] = (vector, np.ones_like(vector), vector[::-1].copy())
        cases[f"{name}_factor"] = (np.ones_like(vector), vector, np.zeros_like(vector))
    if np.dtype(dtype).kind == "f":
        # If two large numbers cancel, the result is the rounding error of one of them, or zero.
        near = values(dtype, 257, np.random.default_rng(1))
        cases["cancellation"] = (near, near, -(near * near))
    return cases


_LENGTHS = "scale_add: a, b and c must have one length"

OPERATOR = Operator(
    name="scale_add",
    version=1,
    outputs=lambda a, b, c: [jax.ShapeDtypeStruct(a.shape, a.dtype)],
    reference=lambda a, b, c: [a * b + c],
    truth=_truth,
    kernels={
        "numba": scale_add,
        "numba_parallel": scale_add_parallel,
        "numba_cuda": CudaKernel(scale_add_cuda, neighbour_tiles),
        "warp": WarpKernel(scale_add_warp),
        "warp_tile": WarpKernel(scale_add_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise("out[i] = a[i] * b[i] + c[i];", ("a", "b", "c")),
        "pallas": pallas.elementwise(lambda a, b, c: [a * b + c]),
    },
    dtypes=("float32", "float64", "int32", "float16"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.zeros(4, np.float32), np.zeros(3, np.float32), np.zeros(4, np.float32)),
            {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors(_LENGTHS, in_launches=())},
        ),
    ),
    gradient=Gradient({0: 1, 1: 1, 2: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda a, b, c: total_bytes(a),
    flops=lambda a, b, c: 2 * a.size,
    elementwise=True,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
