"""csr_rmatvec: ``out = y + A.T @ x`` for a sparse matrix A in CSR form; nominal size is its number of non-zeros.

This is how spikes reach their targets: row i holds the synapses of neuron i, which sends ``x[i]``. ``y`` holds what the
targets have received so far, one element for each column of A. No other input tells the number of columns.
Precondition: ``indptr`` rises from 0 to the number of non-zeros and ``indices`` lie within ``y``. Checking that would
cost as much as the product.
"""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import (
    EDGE_ROWS,
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    csr,
    csr_sample,
    partial_sums_at,
    quantum,
    special_csr,
    total_bytes,
    value_errors,
    values,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, add_partials, copy_to, is_csr, rows_of_part
from suites.backends.numba_cuda import LONG, csr_launch, cuda, kernel, scatter_terms
from suites.backends.warp import LANES, scalar, wp

LENGTHS = "csr_rmatvec: data and indices must have one length, indptr one more element than x"


@numba.njit
def scatter_rows(data, indices, indptr, x, out, first, last):
    """Adds the rows from ``first`` up to ``last`` to ``out``."""
    for row in range(np.uint64(first), np.uint64(last)):
        factor = x[row]
        for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            out[np.uint32(indices[k])] += data[k] * factor


@numba.njit
def csr_rmatvec(data, indices, indptr, x, y, out):
    if not is_csr(data, indices, indptr, x.size):
        raise ValueError(LENGTHS)
    copy_to(out, y)
    scatter_rows(data, indices, indptr, x, out, 0, x.size)


@numba.njit(parallel=True)
def csr_rmatvec_parallel(data, indices, indptr, x, y, out):
    """Each part of the rows has its own accumulator, so that no two threads share an element.

    There are at most as many parts as non-zeros per column. So the accumulators take no more work than the non-zeros.
    """
    parts = min(numba.get_num_threads(), data.size // max(y.size, 1))
    if data.size < ONE_THREAD_BELOW or parts < 2:
        csr_rmatvec(data, indices, indptr, x, y, out)
    else:
        if not is_csr(data, indices, indptr, x.size):
            raise ValueError(LENGTHS)
        partials = np.zeros((parts, y.size), y.dtype)
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            scatter_rows(data, indices, indptr, x, partials[part], first, last)
        add_partials(y, partials, out)


@kernel
def csr_rmatvec_cuda(data, indices, indptr, x, y, out):
    """Adds to ``out``, which is in the memory of ``y``. Threads share rows as in csr_row_sums."""
    rows, lanes, height = np.uint64(x.size), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    lane = np.uint64(cuda.threadIdx.x)
    place = np.uint64(cuda.threadIdx.y) * lanes + lane
    first = np.uint64(cuda.blockIdx.x) * height
    while first < rows:  # the same for all threads of a block: they synchronise in syncthreads_or
        row = first + np.uint64(cuda.threadIdx.y)
        start, stop = np.uint64(0), np.uint64(0)
        if row < rows:
            start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
        is_long = stop - start > lanes * np.uint64(LONG)
        if stop > start and not is_long:
            scatter_terms(data, indices, x[row], out, start + lane, stop, lanes)
        if cuda.syncthreads_or(1 if is_long else 0):
            row = first
            while row < rows and row < first + height:
                start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                if stop - start > lanes * np.uint64(LONG):
                    scatter_terms(data, indices, x[row], out, start + place, stop, lanes * height)
                row += np.uint64(1)
        first += np.uint64(cuda.gridDim.x) * height


def _launch(inputs, outs):
    launch = csr_launch(max(inputs[3].shape[0], 1), inputs[0].shape[0])
    # At least one block: without rows the result is y, which a launch of no block would not write.
    return launch | {"input_output_aliases": {4: 0}}


@functools.cache
def csr_rmatvec_warp(dtype):
    """LANES threads share a row on a GPU, and each adds its part to ``y``. On the CPU one thread has the row."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_rmatvec(data: vector, indices: integers, indptr: integers, x: vector, y: vector):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                wp.atomic_add(y, indices[k], data[k] * x[row])

    return csr_rmatvec


def _launch_warp(inputs, outs):
    if inputs[0].shape != inputs[1].shape or inputs[2].shape[0] != inputs[3].shape[0] + 1:
        raise ValueError(LENGTHS)
    return {"launch_dims": inputs[3].shape[0] * LANES, "in_out_argnames": ["y"]}


def _reference(data, indices, indptr, x, y):
    each = jnp.repeat(x, jnp.diff(indptr), total_repeat_length=data.size)
    return [y.at[indices].add(data * each)]


def _truth(data, indices, indptr, x, y):
    """A product is rounded once and passes through as many additions as its column has non-zeros, in any order."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = wide(data) * np.repeat(wide(x), np.diff(indptr))
        value, condition = wide(y), np.abs(wide(y))
        np.add.at(value, indices, products)
        np.add.at(condition, indices, np.abs(products))
    places = np.concatenate([np.arange(y.size), indices])
    partial = partial_sums_at(np.concatenate([wide(y), products]), places, y.size)
    terms = np.bincount(indices, minlength=y.size) + 1
    bound = {"condition": condition, "partial": partial, "quantum": np.minimum(quantum(data) * quantum(x), quantum(y))}
    return Truth((bounded(value, y.dtype, **bound, terms=terms, flushed=terms + 1),))


def _longest(indptr):
    return int(np.diff(indptr).max(initial=0))


def _vectors(dtype, rows, columns, random):
    return values(dtype, rows, random), values(dtype, columns, random)


def _edges(dtype):
    random = np.random.default_rng(5)

    def call(lengths, columns=11):
        return *csr(dtype, lengths, columns, random), *_vectors(dtype, len(lengths), columns, random)

    cases = {
        **{name: call(lengths) for name, lengths in EDGE_ROWS.items()},
        "no_columns": call([0, 0], 0),
        "one_element": call([1], 1),
        "most_columns_empty": call([5, 0, 7], 1031),
    }
    data, indices, indptr, x, y = call([5, 0, 700, 3])
    cases["all_in_one_column"] = (data, np.full_like(indices, 2), indptr, x, y)
    for name, (vector, each, ends) in special_csr(dtype).items():
        ones = np.ones(vector.size, dtype)
        cases[name] = (vector, each, ends, np.ones(3, dtype), vector[::-1].copy())
        # A row for each value. All are added up in column 1; the other columns must not change.
        targets = np.full(vector.size, 1, np.int32)
        cases[f"{name}_x"] = (ones, targets, np.arange(vector.size + 1, dtype=np.int32), vector, np.zeros(3, dtype))
    # An empty row reaches no target, even if x is NaN or infinite there.
    data, indices, indptr, x, y = call([2, 0, 3])
    x[1] = np.nan
    cases["nan_of_an_empty_row"] = (data, indices, indptr, x, y)
    return cases


_FAILURES = {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(LENGTHS)}

OPERATOR = Operator(
    name="csr_rmatvec",
    version=1,
    outputs=lambda data, indices, indptr, x, y: [jax.ShapeDtypeStruct(y.shape, y.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": csr_rmatvec,
        "numba_parallel": csr_rmatvec_parallel,
        "numba_cuda": CudaKernel(csr_rmatvec_cuda, _launch, atomic=True),
        "warp": WarpKernel(csr_rmatvec_warp, _launch_warp, atomic=True),
    },
    peers=peers.CSR_RMATVEC,
    dtypes=("float32", "float64"),
    sample=csr_sample(_vectors),
    after_csr=_vectors,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (
                np.ones(5, np.float32),
                np.zeros(4, np.int32),
                np.array([0, 5], np.int32),
                np.ones(1, np.float32),
                np.ones(3, np.float32),
            ),
            _FAILURES,
        ),
        ErrorCase(
            "x_too_short",
            lambda: (
                np.ones(4, np.float32),
                np.zeros(4, np.int32),
                np.array([0, 2, 4], np.int32),
                np.ones(1, np.float32),
                np.ones(3, np.float32),
            ),
            _FAILURES,
        ),
    ),
    gradient=Gradient({0: 1, 3: lambda data, indices, indptr, x, y: _longest(indptr) + 1, 4: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, x, y: total_bytes(y),
    flops=lambda data, indices, indptr, x, y: 2 * data.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
