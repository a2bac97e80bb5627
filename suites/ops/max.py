"""max: ``out[0]`` is the largest element; NaN if there is one; an empty x is an error."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
from numba.extending import overload

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
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cuda import THREADS, cuda, device, kernel, load, partial_count
from suites.backends.warp import TILE, blocks, part_count, scalar, wp

# LLVM vectorises a maximum of integers, but not a float maximum that respects NaN. The bits of positive floats are in
# the order of the floats; the bits of negative floats are in the opposite order. So a key is the bits of a float;
# for a negative float all bits but the sign are flipped. A NaN with a positive sign has a key above infinity, but a NaN
# with a negative sign has a key below all others. So the kernel also tracks the largest magnitude: it is above
# infinity's if there is any NaN.


def largest_key(x):
    """The largest element of a non-empty vector as a key, and the largest magnitude as bits (0 for integers)."""
    raise NotImplementedError("for kernels only")


def value_of(key, magnitude, out):
    """The element that a key stands for; NaN if the magnitude is above infinity."""
    raise NotImplementedError("for kernels only")


@overload(largest_key)
def _largest_key(x):
    if not isinstance(x.dtype, numba.types.Float):

        def of_integers(x):
            largest = x[0]
            for i in range(x.size):
                largest = x[i] if x[i] > largest else largest
            return largest, x.dtype.type(0)

        return of_integers

    integer, shift, magnitude_bits = _layout(x.dtype)

    def of_floats(x):
        bits = x.view(integer)
        largest, magnitude = ~magnitude_bits, integer(0)
        for i in range(bits.size):
            word = bits[i]
            key = word ^ ((word >> shift) & magnitude_bits)
            largest = key if key > largest else largest
            unsigned = word & magnitude_bits
            magnitude = unsigned if unsigned > magnitude else magnitude
        return largest, magnitude

    return of_floats


@overload(value_of)
def _value_of(key, magnitude, out):
    if not isinstance(out.dtype, numba.types.Float):
        return lambda key, magnitude, out: key

    integer, shift, magnitude_bits = _layout(out.dtype)
    infinity = np.array(np.inf, str(out.dtype)).view(integer)[()]

    def of_floats(key, magnitude, out):
        if magnitude > infinity:
            return out.dtype.type(np.nan)
        word = np.empty(1, integer)
        word[0] = key ^ ((key >> shift) & magnitude_bits)  # this function is its own inverse
        return word.view(out.dtype)[0]

    return of_floats


def _layout(dtype):
    """For a Numba float type: the integer type of its width, the place of the sign, and the mask of the other bits."""
    integer = getattr(np, f"int{dtype.bitwidth}")
    return integer, integer(dtype.bitwidth - 1), integer(np.iinfo(integer).max)


@numba.njit
def largest(x, out):
    if x.size == 0:
        raise ValueError("max: x has no elements")
    key, magnitude = largest_key(x)
    out[0] = value_of(key, magnitude, out)


@numba.njit(parallel=True)
def largest_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        largest(x, out)
    else:
        parts = numba.get_num_threads()
        key, magnitude = largest_key(x[:1])
        for part in numba.prange(parts):
            own_key, own_magnitude = largest_key(x[x.size * part // parts : x.size * (part + 1) // parts])
            key, magnitude = max(key, own_key), max(magnitude, own_magnitude)
        out[0] = value_of(key, magnitude, out)


@device
def larger(a, b):
    """The larger of two values; NaN if one of them is NaN."""
    return a if a > b or a != a else b


@kernel
def largest_of(x, maxima):
    """``maxima[b]`` becomes the largest element of x that block b takes. x has at least one element."""
    shared = cuda.shared.array(THREADS, x.dtype)
    i, step, size = np.uint64(cuda.grid(1)), np.uint64(cuda.gridsize(1)), np.uint64(x.size)
    best = x[0]  # taking an element twice changes nothing
    while i + step * np.uint64(3) < size:
        a, b, c, d = load(x, i, step)
        best = larger(best, larger(larger(a, b), larger(c, d)))
        i += step * np.uint64(4)
    while i < size:
        best = larger(best, x[i])
        i += step
    lane = cuda.threadIdx.x
    shared[lane] = best
    width = THREADS // 2
    while width > 0:
        cuda.syncthreads()
        if lane < width:
            shared[lane] = larger(shared[lane], shared[lane + width])
        width //= 2
    if lane == 0:
        maxima[cuda.blockIdx.x] = shared[0]


def largest_cuda(x, out, stream):
    blocks = partial_count(x.size)
    if blocks == 1:
        largest_of[1, THREADS, stream](x, out)
    else:
        maxima = cuda.device_array(blocks, dtype=x.dtype)
        largest_of[blocks, THREADS, stream](x, maxima)
        largest_of[1, THREADS, stream](maxima, out)


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


_EMPTY = Failure(jax.errors.JaxRuntimeError, "ValueError: max: x has no elements")

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
    dtypes=("float32", "float64", "int32", "int64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items() if vector.size},
    errors=(
        ErrorCase(
            "empty",
            lambda: (np.zeros(0, np.float32),),
            {
                "jnp": Failure(ValueError, "zero-size array"),
                "numba": _EMPTY,
                "numba_parallel": _EMPTY,
                "warp": Failure(ValueError, "max: x has no elements"),
            },
        ),
    ),
    bytes_read=total_bytes,
    bytes_written=lambda x: x.dtype.itemsize,
    gradient=None,  # it is undefined where several elements are the largest
    flops=lambda x: x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
