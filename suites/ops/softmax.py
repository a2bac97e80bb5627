"""softmax: ``out[i, j] = exp(x[i, j]) / sum(exp(x[i]))``, with the row's maximum subtracted so that nothing overflows.

Nominal size is the number of elements. As with ``jax.nn.softmax``, a row is NaN if it has a NaN or plus infinity, or if
all its elements are minus infinity. A single minus infinity has the weight zero.
"""

import functools
import math

import jax
import numba
import numpy as np

from suites import (
    CudaKernel,
    Expected,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    blocked_terms,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_exp, largest_element, multiply
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    WARP,
    WARPS,
    aligned,
    cuda,
    device,
    each_of,
    kernel,
    lanes_combined,
    loads_of,
    neighbours,
    quotient,
    store_neighbours,
    stores_of,
    sum_of_lanes,
    tree_of,
)
from suites.backends.warp import FOUR, block_of, blocks, on_gpu, scalar, thread_of_block, vectors_of, wp
from suites.backends.warp_rows import PART, rows_of, threads_for


@numba.njit(error_model="numpy", forceinline=True)
def softmax_row(x, out):
    if x.size == 0:
        return
    largest = largest_element(x)
    total = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        total += block_exp(x[start : start + BLOCK], largest, out[start : start + BLOCK])
    multiply(out, x.dtype.type(1) / total)


@numba.njit(error_model="numpy")
def softmax(x, out):
    for row in range(x.shape[0]):
        softmax_row(x[row], out[row])


@numba.njit(parallel=True, error_model="numpy")
def softmax_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        softmax(x, out)
    else:
        for row in numba.prange(x.shape[0]):
            softmax_row(x[row], out[row])


@device
def larger(a, b):
    return a if a > b else b


largest_of_lanes = lanes_combined(larger)

KEPT = 8
"""The most vectors of its row that a CUDA thread keeps in registers."""

MOST_LANES = 512
"""The most threads that share a row: with more, each could have only half of the registers."""

FILLED = 1 << 15
"""Threads with KEPT loads each that keep a GPU busy. If there are fewer, more of them share a row."""

FEW = 64
"""Threads of a block, unless a row has more: small blocks spread evenly over the multiprocessors."""


@device
def vector_within(x, first, j, stop):
    """NEIGHBOURS elements of a row that begins at element ``first``, from column j; minus infinity beyond its end."""
    if j < stop:
        return neighbours(x, first + j)
    absent = x.dtype.type(-np.inf)
    return absent, absent, absent, absent


@device
def vector_of_row(x, first, j, stop):
    return neighbours(x, first + j)


@device
def store_within(out, first, j, stop, v):
    if j < stop:
        store_neighbours(out, first + j, v)


@device
def store_in_row(out, first, j, stop, v):
    store_neighbours(out, first + j, v)


@device
def largest_of_four(v):
    return larger(larger(v[0], v[1]), larger(v[2], v[3]))


@device
def exp_of_four(v, center):
    return math.exp(v[0] - center), math.exp(v[1] - center), math.exp(v[2] - center), math.exp(v[3] - center)


@device
def sum_of_four(v):
    return (v[0] + v[1]) + (v[2] + v[3])


@device
def plus(a, b):
    return a + b


@device
def scaled(v, scale):
    return v[0] * scale, v[1] * scale, v[2] * scale, v[3] * scale


@device
def softmax_in_passes(x, out):
    """The threads of one ``threadIdx.y`` read a row three times, but only once from memory if the cache holds it."""
    shared = cuda.shared.array(WARPS, out.dtype)
    one, nothing = out.dtype.type(1), out.dtype.type(0)
    rows, columns = np.uint64(x.shape[0]), np.uint64(x.shape[1])
    lanes, height = np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    lane, two, three = np.uint64(cuda.threadIdx.x), lanes * np.uint64(2), lanes * np.uint64(3)
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise for the maximum and the sum
        row = first + np.uint64(cuda.threadIdx.y)
        stop = columns if row < rows else np.uint64(0)
        a = b = c = d = out.dtype.type(-np.inf)
        j = lane
        while j + three < stop:
            a, b = larger(x[row, j], a), larger(x[row, j + lanes], b)
            c, d = larger(x[row, j + two], c), larger(x[row, j + three], d)
            j += lanes * np.uint64(4)
        while j < stop:
            a = larger(x[row, j], a)
            j += lanes
        largest = largest_of_lanes(shared, larger(larger(a, b), larger(c, d)), cuda.blockDim.x)
        a = b = c = d = nothing
        j = lane
        while j + three < stop:
            a += math.exp(x[row, j] - largest)
            b += math.exp(x[row, j + lanes] - largest)
            c += math.exp(x[row, j + two] - largest)
            d += math.exp(x[row, j + three] - largest)
            j += lanes * np.uint64(4)
        while j < stop:
            a += math.exp(x[row, j] - largest)
            j += lanes
        scale = quotient(one, sum_of_lanes(shared, (a + b) + (c + d), cuda.blockDim.x))
        j = lane
        while j + three < stop:
            v0, v1, v2, v3 = x[row, j], x[row, j + lanes], x[row, j + two], x[row, j + three]
            out[row, j] = math.exp(v0 - largest) * scale
            out[row, j + lanes] = math.exp(v1 - largest) * scale
            out[row, j + two] = math.exp(v2 - largest) * scale
            out[row, j + three] = math.exp(v3 - largest) * scale
            j += lanes * np.uint64(4)
        while j < stop:
            out[row, j] = math.exp(x[row, j] - largest) * scale
            j += lanes
        first += np.uint64(cuda.gridDim.x) * height


@functools.cache
def softmax_kept(lanes, each, is_full):
    """Makes the kernel that reads each row once, and keeps it in registers.

    What is constant takes no instructions, and many short rows take little else than latencies.

    Args:
        lanes: The threads that share a row.
        each: How many vectors each of them keeps.
        is_full: Whether a row is as long as they can keep. If not, an element beyond its end is minus infinity, whose
            exponential is zero.
    """
    height = max(FEW // lanes, 1)
    load = loads_of(vector_of_row if is_full else vector_within, each)
    store = stores_of(store_in_row if is_full else store_within, each)
    largest, total_of = tree_of(largest_of_four, larger, each), tree_of(sum_of_four, plus, each)
    exp_of, scale_by = each_of(exp_of_four, each), each_of(scaled, each)

    @kernel
    def softmax_rows(x, out):
        if aligned(x) and aligned(out):
            shared = cuda.shared.array(WARPS, out.dtype)
            rows, step = np.uint64(x.shape[0]), np.uint64(lanes * NEIGHBOURS)
            columns = step * np.uint64(each) if is_full else np.uint64(x.shape[1])
            row = np.uint64(cuda.blockIdx.x) * np.uint64(height) + np.uint64(cuda.threadIdx.y)
            # Beyond the last row, threads repeat its work and write nothing.
            first, j = min(row, rows - np.uint64(1)) * columns, np.uint64(cuda.threadIdx.x) * np.uint64(NEIGHBOURS)
            v = load(x, first, j, step, columns)
            v = exp_of(v, largest_of_lanes(shared, largest(v), lanes))
            scale = quotient(out.dtype.type(1), sum_of_lanes(shared, total_of(v), lanes))
            if row < rows:
                store(out, first, j, step, columns, scale_by(v, scale))
        else:
            softmax_in_passes(x, out)

    return softmax_rows


@kernel
def softmax_cuda(x, out):
    """Takes rows of any length."""
    softmax_in_passes(x, out)


def _lanes(rows, columns):
    """As many threads share a row as it has KEPT vectors, at least a warp; more if there are few rows."""
    vectors = -(-columns // NEIGHBOURS)
    lanes = 1
    while lanes < MOST_LANES and lanes < vectors and (lanes * KEPT < vectors or lanes < WARP or rows * lanes < FILLED):
        lanes *= 2
    return lanes


def _select(inputs, outs):
    """A row that is a whole number of vectors, and not too long for the registers of its threads, is read once."""
    rows, columns = outs[0].shape
    lanes, each = _lanes(rows, columns), 1
    while lanes * each * NEIGHBOURS < columns:
        each *= 2
    if columns % NEIGHBOURS or each > KEPT:
        return softmax_cuda
    return softmax_kept(lanes, each, lanes * each * NEIGHBOURS == columns)


def _launch(inputs, outs):
    rows, columns = outs[0].shape
    lanes = _lanes(rows, columns)
    height = max(FEW // lanes, 1)
    return {"grid": -(-rows // height) if columns else 0, "block": (lanes, height)}


@functools.cache
def softmax_warp(dtype, rows_of=rows_of):
    """A block for each row. On a GPU its threads keep the row in registers, if it has whole vectors and fits."""
    element = scalar(dtype)
    matrix, vector = wp.array2d(dtype=element), wp.array(dtype=element)
    four, load, store, aligned, *_ = vectors_of(dtype)
    rows = rows_of(dtype)
    load_part, store_part, powers_of, total_of = rows.load_or_least, rows.store, rows.powers, rows.total
    largest_of, largest_of_block, total_of_block = rows.largest, rows.largest_of_block, rows.total_of_block

    @wp.func
    def larger_of(a: element, b: element):
        return wp.where(a > b, a, b)

    @wp.func
    def largest(x: vector, in_vectors: bool, lane: int):
        found = element(-wp.inf)
        if in_vectors:
            for j in range(lane * FOUR, x.shape[0], wp.block_dim() * FOUR):
                v = load(x, j)
                found = larger_of(larger_of(larger_of(v[0], v[1]), larger_of(v[2], v[3])), found)
        else:
            for j in range(lane, x.shape[0], wp.block_dim()):
                found = larger_of(x[j], found)
        return found

    @wp.func_grad(largest)
    def adj_largest(x: vector, in_vectors: bool, lane: int, adj_found: element):
        """Does nothing: the result does not depend on the number that is subtracted from all elements of a row."""

    @wp.func
    def exp_of(v: four, center: element):
        return four(wp.exp(v[0] - center), wp.exp(v[1] - center), wp.exp(v[2] - center), wp.exp(v[3] - center))

    # The loops are in separate functions: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def sum_of_exp(x: vector, lane: int, center: element):
        total = element(0)
        for j in range(lane, x.shape[0], wp.block_dim()):
            total += wp.exp(x[j] - center)
        return total

    @wp.func
    def sum_of_exp_in_fours(x: vector, lane: int, center: element):
        total = four()
        for j in range(lane * FOUR, x.shape[0], wp.block_dim() * FOUR):
            total += exp_of(load(x, j), center)
        return (total[0] + total[1]) + (total[2] + total[3])

    @wp.kernel(module="unique")
    def softmax(x: matrix, out: matrix):
        row, lane = block_of(wp.tid()), thread_of_block()
        own, result = x[row], out[row]
        in_vectors = on_gpu() and own.shape[0] % FOUR == 0 and aligned(own) and aligned(result)
        if in_vectors and own.shape[0] <= PART * wp.block_dim():
            part = load_part(own, 0)
            powers = powers_of(part, largest_of_block(largest_of(part)))
            store_part(result, 0, powers * (element(1) / total_of_block(total_of(powers))))
        else:
            center = wp.tile_max(wp.tile(largest(own, in_vectors, lane)))[0]
            total = element(0)
            if in_vectors:  # noqa: SIM108  Warp would compute both sides of a conditional expression
                total = sum_of_exp_in_fours(own, lane, center)
            else:
                total = sum_of_exp(own, lane, center)
            scale = element(1) / wp.tile_sum(wp.tile(total))[0]
            if in_vectors:
                for j in range(lane * FOUR, own.shape[0], wp.block_dim() * FOUR):
                    store(result, j, exp_of(load(own, j), center) * scale)
            else:
                for j in range(lane, own.shape[0], wp.block_dim()):
                    result[j] = wp.exp(own[j] - center) * scale

    return softmax


def _launch_warp(inputs, outs):
    rows, columns = outs[0].shape
    return {**blocks(rows, threads_for(columns, outs[0].dtype)), "output_dims": outs[0].shape}


def _chain(columns):
    """Roundings of a result: of a sum, of two exponentials with four each (see exp_trace), and of the quotient.

    The quotient has four (2 ulp), and one more if a kernel multiplies with the reciprocal of the sum.
    """
    return blocked_terms(columns) + 4 + 4 + 5


def _weighted_distance(p, distance):
    """The mean distance from the maximum, weighted by p. Elements without weight may be infinitely far away."""
    return np.where(p > 0, p * distance, 0).sum(axis=1, keepdims=True)


def _truth(x):
    """The distance ``d`` from the maximum has one rounding, which changes its exponential by a factor of ``1 + d u``.

    So a result p has a relative error of ``d u`` from its own exponential. From the sum it has the mean of ``d u``,
    weighted by the p of its row. The roundings of :func:`_chain` are added. Squares of u are left out.

    An exponential below the smallest normal number may be flushed to zero, in the sum as well.
    """
    columns, info = x.shape[1], np.finfo(x.dtype)
    if not x.size:
        return Truth((Expected(wide(x), x.dtype, np.zeros(x.shape)),))
    with np.errstate(all="ignore"):
        distance = wide(x).max(axis=1, keepdims=True) - wide(x)
        value = np.exp(-distance)
        value /= value.sum(axis=1, keepdims=True)
        roundings = _chain(columns) + np.where(value > 0, distance, 0) + _weighted_distance(value, distance)
        ku = roundings * float(info.eps) / 2
        margin = value * ku / (1 - ku) + (columns + 2) * float(info.tiny)
    return Truth((Expected(value, x.dtype, np.where(np.isfinite(margin), margin, 0)),))


def _condition(pullback, inputs, cotangents):
    """A cotangent is ``p (g - sum(p g))``. Each p has the roundings that :func:`_truth` counts.

    The distances are divided by the chain, because they are multiplied with it later.
    """
    (x,), (g,) = inputs, map(np.abs, cotangents)
    distance = x.max(axis=1, keepdims=True) - x
    p = np.exp(-distance)
    p /= p.sum(axis=1, keepdims=True)
    weight = 1 + (distance + _weighted_distance(p, distance)) / _adjoint_chain(x)
    return [p * weight * (g + (p * weight * g).sum(axis=1, keepdims=True))]


def _adjoint_chain(x):
    """Twice the chain of a result for the two p of a term, a sum over the row, and a few products and differences."""
    return 2 * _chain(x.shape[1]) + blocked_terms(x.shape[1]) + 8


def _shape(size):
    columns = math.isqrt(size)
    return size // columns, columns


def _sample(dtype, size, seed):
    shape = _shape(size)
    return (4 * values(dtype, math.prod(shape), np.random.default_rng(seed)).reshape(shape),)


def _edges(dtype):
    """Each vector as the middle one of three rows, and rows that are masked, far from zero, or of one column."""
    random = np.random.default_rng(6)
    cases = {}
    for name, vector in vectors(dtype).items():
        rows = np.ones((3, vector.size), dtype)
        rows[1] = vector
        cases[name] = (rows,)
    masked = values(dtype, 4 * 33, random).reshape(4, 33)
    masked[0, 5:], masked[1, :-1], masked[2] = -np.inf, -np.inf, -np.inf
    largest = np.finfo(dtype).max
    for name, shape in {"no_rows": (0, 5), "one_column": (5, 1), "one_long_row": (1, 5000), "tall": (1031, 2)}.items():
        cases[name] = (values(dtype, math.prod(shape), random).reshape(shape),)
    return cases | {
        "masked": (masked,),
        "far_from_zero": (values(dtype, 2 * 33, random).reshape(2, 33) + np.array([[1000], [-1000]], dtype),),
        "far_apart": (np.array([[0, -80, -90, -100, -1000], [largest, -largest, 0, largest, 1]], dtype),),
    }


OPERATOR = Operator(
    name="softmax",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [jax.nn.softmax(x, axis=1)],
    truth=_truth,
    kernels={
        "numba": softmax,
        "numba_parallel": softmax_parallel,
        "numba_cuda": CudaKernel(softmax_cuda, _launch, select=_select),
        "warp": WarpKernel(softmax_warp, _launch_warp),
    },
    peers=peers.SOFTMAX,
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    gradient=Gradient({0: _adjoint_chain}, _condition),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 5 * x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24)),
)
