"""top1_gather: for each row of scores the index of the largest score, and the row of a table that it selects.

This is how a mixture of experts sends each token to one expert. As in ``jnp.argmax``, the first of equal scores is
chosen, and NaN before any number. Nominal size is the number of scores.
"""

import functools

import jax
import jax.numpy as jnp
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
    total_bytes,
    value_errors,
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW, index_of_largest
from suites.backends.numba_cuda import THREADS, cuda, device, kernel, rows_of
from suites.backends.warp import scalar, wp

EXPERTS = 16
"""Scores in a row of a sample, and rows of its table."""

WIDTH = 8
"""Columns of the table in a sample."""


@numba.njit
def top1_rows(scores, table, indices, rows, first, last):
    """The rows from ``first`` up to ``last``."""
    for i in range(first, last):
        index = index_of_largest(scores[i])
        indices[i] = index
        source, target = table[np.uint32(index)], rows[i]
        for j in range(target.size):
            target[j] = source[j]


@numba.njit
def top1_gather(scores, table, indices, rows):
    if scores.shape[1] == 0 or scores.shape[1] != table.shape[0]:
        raise ValueError("top1_gather: scores must have as many columns as the table has rows, and at least one")
    top1_rows(scores, table, indices, rows, 0, indices.size)


@numba.njit(parallel=True)
def top1_gather_parallel(scores, table, indices, rows):
    if scores.size < ONE_THREAD_BELOW:
        top1_gather(scores, table, indices, rows)
    else:
        if scores.shape[1] != table.shape[0]:
            raise ValueError("top1_gather: scores must have as many columns as the table has rows, and at least one")
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            size = indices.size
            top1_rows(scores, table, indices, rows, size * part // parts, size * (part + 1) // parts)


@device
def goes_before(a, i, b, j):
    """Whether score a at place i is chosen before score b at j: NaN first, then the larger one, then the first one."""
    if a != a:
        return b == b or i < j
    return a > b or (a == b and i < j)


@kernel
def top1_gather_cuda(scores, table, indices, rows):
    """Lanes share a row of scores, then the copy of a row of the table. Neighbours read and write neighbours."""
    shared_score = cuda.shared.array(THREADS, scores.dtype)
    shared_index = cuda.shared.array(THREADS, indices.dtype)
    count, columns, width = np.uint64(scores.shape[0]), np.uint64(scores.shape[1]), np.uint64(table.shape[1])
    lane, lanes, height = np.uint64(cuda.threadIdx.x), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    place = np.uint64(cuda.threadIdx.y) * lanes + lane
    first = np.uint64(cuda.blockIdx.x) * height
    while first < count:  # the same for all threads of a block: they synchronise in the loop
        row = min(first + np.uint64(cuda.threadIdx.y), count - np.uint64(1))  # several threads may take the last row
        # A lane without a score begins with the last one: taking it twice changes nothing.
        index = min(lane, columns - np.uint64(1))
        best = scores[row, index]
        j = index + lanes
        while j < columns:
            score = scores[row, j]
            if goes_before(score, j, best, index):
                best, index = score, j
            j += lanes
        shared_score[place], shared_index[place] = best, index
        half = lanes // np.uint64(2)
        while half > np.uint64(0):
            cuda.syncthreads()
            if lane < half:
                other, there = shared_score[place + half], np.uint64(shared_index[place + half])
                if goes_before(other, there, best, index):
                    best, index = other, there
                    shared_score[place], shared_index[place] = best, index
            half //= np.uint64(2)
        cuda.syncthreads()
        chosen = np.uint64(shared_index[place - lane])
        cuda.syncthreads()  # a slower thread must have read these rows before the next ones overwrite them
        if first + np.uint64(cuda.threadIdx.y) < count:
            if lane == np.uint64(0):
                indices[row] = chosen
            j = lane
            while j < width:
                rows[row, j] = table[chosen, j]
                j += lanes
        first += height * np.uint64(cuda.gridDim.x)


def _launch(inputs, outs):
    _check_columns(*inputs)
    return rows_of(*inputs[0].shape)


@functools.cache
def top1_gather_warp(dtype):
    """The launch of a thread for each row."""
    element = scalar(dtype)
    matrix = wp.array2d(dtype=element)

    @wp.func
    def index_of_largest(scores: matrix, i: int):
        best = scores[i, 0]
        index = wp.int32(0)
        for j in range(1, scores.shape[1]):
            score = scores[i, j]
            chosen = (score > best or score != score) and best == best
            best = wp.where(chosen, score, best)
            index = wp.where(chosen, j, index)
        return index

    @wp.kernel(module="unique")
    def top1_gather(scores: matrix, table: matrix, indices: wp.array(dtype=wp.int32), rows: matrix):
        i = wp.tid()
        index = index_of_largest(scores, i)
        indices[i] = index
        for j in range(table.shape[1]):
            rows[i, j] = table[index, j]

    return top1_gather


def _launch_warp(inputs, outs):
    _check_columns(*inputs)
    return {"launch_dims": outs[0].shape[0], "output_dims": {"indices": outs[0].shape, "rows": outs[1].shape}}


_COLUMNS = "top1_gather: scores must have as many columns as the table has rows, and at least one"


def _check_columns(scores, table):
    if scores.shape[1] == 0 or scores.shape[1] != table.shape[0]:
        raise ValueError(_COLUMNS)


def _reference(scores, table):
    indices = jnp.argmax(scores, axis=1).astype(jnp.int32)
    return [indices, table[indices]]


def _truth(scores, table):
    """The indices are exact. Rows are copies, in which only subnormal numbers may become zero."""
    indices = np.argmax(scores, axis=1).astype(np.int32)
    return Truth((exact(indices), bounded(wide(table)[indices], table.dtype)))


def _condition(pullback, inputs, cotangents):
    """The cotangent of the scores is zero. A row of the table gets the sum of all cotangents that selected it."""
    scores, table = pullback(inputs, [cotangents[0], np.abs(cotangents[1])])
    return [np.zeros_like(scores), np.abs(table)]


def _most_selections(scores, table):
    """The largest number of rows of scores that select the same row of the table."""
    return int(np.bincount(np.argmax(scores, axis=1)).max(initial=0))


def _sample(dtype, size, seed):
    return _call(dtype, max(1, size // EXPERTS), EXPERTS, WIDTH, np.random.default_rng(seed))


def _call(dtype, count, experts, width, random):
    scores, table = values(dtype, count * experts, random), values(dtype, experts * width, random)
    return scores.reshape(count, experts), table.reshape(experts, width)


def _edges(dtype):
    """Ties, NaN and infinities in every place of a row, and shapes that fill no block."""
    random = np.random.default_rng(5)
    scores, table = _call(dtype, 33, 11, 5, random)
    cases = {
        "no_rows": _call(dtype, 0, 7, 5, random),
        "one": _call(dtype, 1, 1, 1, random),
        "no_width": _call(dtype, 3, 7, 0, random),
        "one_expert": _call(dtype, 33, 1, 5, random),
        "many_experts": _call(dtype, 5, 1031, 3, random),
        "wide_table": _call(dtype, 5, 3, 301, random),
        "all_equal": (np.zeros((33, 300), dtype), values(dtype, 900, random).reshape(300, 3)),
        "ties": (np.round(scores), table),
        "falling": (np.sort(scores, axis=1)[:, ::-1].copy(), table),
        "rising": (np.sort(scores, axis=1), table),
        "all_nan": (np.full_like(scores, np.nan), table),
        "all_minus_inf": (np.full_like(scores, -np.inf), table),
    }
    # Each special number at each place of a row, alone and with a second one after it.
    for name, value in {"nan": np.nan, "inf": np.inf, "minus_inf": -np.inf}.items():
        special = scores.copy()
        for i in range(33):
            special[i, i % 11] = value
            special[i, -1 if i > 11 else i % 11] = value
        cases[name] = (special, table)
    # No subnormal scores: flushed to zero they are equal.
    for name in ("nan", "negative_nan", "both_infs", "minus_zero", "tiny", "huge"):
        vector = vectors(dtype)[name]
        cases[f"{name}_vector"] = (np.stack([np.roll(vector, i) for i in range(vector.size)]), vector[:, None].copy())
    subnormal = vectors(dtype)["subnormal"]
    cases["subnormal_table"] = (np.eye(subnormal.size, dtype=dtype), subnormal[:, None].copy())
    return cases


_REFUSED = value_errors(_COLUMNS, in_launches=("numba_cuda", "warp"))

OPERATOR = Operator(
    name="top1_gather",
    version=1,
    outputs=lambda scores, table: [
        jax.ShapeDtypeStruct(scores.shape[:1], np.int32),
        jax.ShapeDtypeStruct((scores.shape[0], table.shape[1]), table.dtype),
    ],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": top1_gather,
        "numba_parallel": top1_gather_parallel,
        "numba_cuda": CudaKernel(top1_gather_cuda, _launch),
        "warp": WarpKernel(top1_gather_warp, _launch_warp),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "no_experts",
            lambda: (np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32)),
            {"jnp": Failure(ValueError, "argmax of an empty sequence"), **_REFUSED},
        ),
        # jnp takes the last row of the table instead.
        ErrorCase("short_table", lambda: (np.zeros((3, 4), np.float32), np.zeros((3, 2), np.float32)), _REFUSED),
    ),
    gradient=Gradient({0: 0, 1: _most_selections}, _condition),
    bytes_read=total_bytes,
    bytes_written=lambda scores, table: scores.shape[0] * (4 + table.shape[1] * table.dtype.itemsize),
    flops=lambda scores, table: scores.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
