"""max: ``out[0]`` is the largest element; NaN if there is one; an empty x is an error."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaCallable,
    ErrorCase,
    Failure,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    bounded,
    exact,
    total_bytes,
    value_errors,
    values,
    vectors,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, largest_element
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    THREADS,
    aligned,
    cuda,
    device,
    lanes_combined,
    maximum,
    neighbours,
    partial_count,
    reduction,
)
from suites.backends.warp import TILE, blocks, part_count, scalar, wp


@numba.njit(error_model="numpy")
def largest_of_part(x):
    """The largest element of a non-empty vector; +0 if it is zero and any is +0: comparisons see no difference."""
    value = largest_element(x)
    if value == 0:
        for i in range(x.size):
            if x[i] == 0 and 1 / x[i] > 0:
                return x[i]
    return value


@numba.njit
def largest(x, out):
    if x.size == 0:
        raise ValueError("max: x has no elements")
    out[0] = largest_of_part(x)


@numba.njit(parallel=True)
def largest_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        largest(x, out)
    else:
        parts = numba.get_num_threads()
        maxima = np.empty(parts, x.dtype)
        for part in numba.prange(parts):
            maxima[part] = largest_of_part(x[x.size * part // parts : x.size * (part + 1) // parts])
        out[0] = largest_of_part(maxima)


@device
def largest_of_four(found):
    return maximum(maximum(found[0], found[1]), maximum(found[2], found[3]))


largest_of_lanes = lanes_combined(maximum)


@device
def largest_of_share(x, thread, threads):
    """The largest of this thread's share of a vector of at least one element, as ``sum_of_share`` gives its sum."""
    size, each = np.uint64(x.size), np.uint64(NEIGHBOURS)
    best = x[0]  # taking an element twice changes nothing
    whole = size // each if aligned(x) else np.uint64(0)
    i, step = np.uint64(thread), np.uint64(threads)
    while i + step * np.uint64(3) < whole:
        p, q = neighbours(x, i * each), neighbours(x, (i + step) * each)
        r, s = neighbours(x, (i + step * np.uint64(2)) * each), neighbours(x, (i + step * np.uint64(3)) * each)
        best = maximum(best, maximum(maximum(largest_of_four(p), largest_of_four(q)), largest_of_four(r)))
        best = maximum(best, largest_of_four(s))
        i += step * np.uint64(4)
    while i < whole:
        best = maximum(best, largest_of_four(neighbours(x, i * each)))
        i += step
    i = whole * each + np.uint64(thread)
    while i < size:
        best = maximum(best, x[i])
        i += step
    return best


largest_of_parts, largest_of_maxima = reduction(largest_of_share, largest_of_lanes)


def largest_cuda(x, out, stream):
    blocks = partial_count(x.size)
    if blocks == 1:
        largest_of_maxima[1, THREADS, stream](x, out)
    else:
        maxima = cuda.device_array(blocks, dtype=x.dtype)
        largest_of_parts[blocks, THREADS, stream](x, maxima)
        largest_of_maxima[1, THREADS, stream](maxima, out)


@functools.cache
def largest_warp(dtype, width):
    """Makes the kernel that finds the maximum of each part of ``x``, in tiles of ``width``. x has at least one tile."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    if np.dtype(dtype).kind == "f":

        @wp.func
        def larger(a: element, b: element):
            return wp.where(a > b or a != a, a, b)

    else:

        @wp.func
        def larger(a: element, b: element):
            return wp.max(a, b)

    @wp.kernel(module="unique", enable_backward=False)
    def largest(x: vector, maxima: vector):
        tiles = (x.shape[0] + width - 1) // width
        each = (tiles + maxima.shape[0] - 1) // maxima.shape[0]
        first = wp.tid() * each
        best = wp.tile_full(shape=width, value=x[0], dtype=element)
        for i in range(first, wp.min(first + each, tiles)):
            # The last tile begins earlier, so that it ends with x: taking an element twice changes nothing.
            best = wp.tile_map(larger, best, wp.tile_load(x, shape=width, offset=wp.min(i * width, x.shape[0] - width)))
        wp.tile_store(maxima, wp.tile_reduce(larger, best), offset=wp.tid())

    return largest


def largest_warp_in_two_passes(inputs, outs):
    dtype, size = str(inputs[0].dtype), inputs[0].shape[0]
    if not size:
        raise ValueError("max: x has no elements")

    def reduction(size, parts):
        return bridge.jax_kernel(largest_warp(dtype, TILE if size >= TILE else 1), **blocks(parts), output_dims=parts)

    parts = part_count(size)
    first, second = reduction(size, parts), reduction(parts, 1)
    return lambda x: second(*first(x))


def _truth(x):
    if x.dtype.kind != "f":
        return Truth((exact(x.max(keepdims=True)),))
    # The result is a copy: only a subnormal number may become zero.
    return Truth((bounded(wide(x).max(keepdims=True), x.dtype),))


_EMPTY = "max: x has no elements"

OPERATOR = Operator(
    name="max",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((1,), x.dtype)],
    reference=lambda x: [jnp.max(x, keepdims=True)],
    truth=_truth,
    kernels={
        "numba": largest,
        "numba_parallel": largest_parallel,
        "numba_cuda_callable": CudaCallable(largest_cuda),
        "numba_cuda_replay": CudaCallable(largest_cuda),
        "warp": WarpCallable(largest_warp_in_two_passes, calls=2),
    },
    peers=peers.MAX,
    dtypes=("float32", "float64", "int32", "int64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items() if vector.size},
    errors=(
        ErrorCase(
            "empty",
            lambda: (np.zeros(0, np.float32),),
            {"jnp": Failure(ValueError, "zero-size array"), **value_errors(_EMPTY)},
        ),
    ),
    bytes_read=total_bytes,
    bytes_written=lambda x: x.dtype.itemsize,
    gradient=None,  # it is undefined where several elements are the largest
    flops=lambda x: x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
