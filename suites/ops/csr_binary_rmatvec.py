"""csr_binary_rmatvec: ``out = y + spikes @ A`` for a sparse matrix A in CSR form; nominal size is its non-zeros.

This is how spikes reach their targets where a neuron either spikes or does not: row i holds the synapses of neuron i.
Only the rows of neurons that spiked are read, so the work grows with the spikes and not with the synapses. ``y`` holds
what the targets have received so far, one element for each column of A. Precondition: as for csr_rmatvec.
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
    vectors,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, add_partials, copy_to, is_csr, rows_of_part
from suites.backends.numba_cuda import LONG, THREADS, WARP, cuda, kernel, scatter_terms, shuffle_from, votes
from suites.backends.warp import LANES, scalar, wp

RATE = 0.05
"""The share of neurons that spike in a sample."""

LENGTHS = "csr_binary_rmatvec: data and indices must have one length, indptr one more element than spikes"


@numba.njit
def scatter_active_rows(data, indices, indptr, spikes, out, first, last):
    """Adds the rows from ``first`` up to ``last`` whose neurons spiked to ``out``."""
    for row in range(np.uint64(first), np.uint64(last)):
        if spikes[row]:
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                out[np.uint32(indices[k])] += data[k]


@numba.njit
def csr_binary_rmatvec(data, indices, indptr, spikes, y, out):
    if not is_csr(data, indices, indptr, spikes.size):
        raise ValueError(LENGTHS)
    copy_to(out, y)
    scatter_active_rows(data, indices, indptr, spikes, out, 0, spikes.size)


@numba.njit
def active_terms(indptr, spikes):
    """The number of non-zeros in the rows of neurons that spiked."""
    total = 0
    for row in range(spikes.size):
        if spikes[row]:
            total += indptr[row + 1] - indptr[row]
    return total


@numba.njit(parallel=True)
def csr_binary_rmatvec_parallel(data, indices, indptr, spikes, y, out):
    """Each part of the rows has its own accumulator, as in csr_rmatvec, if there are enough non-zeros to add up."""
    if not is_csr(data, indices, indptr, spikes.size):
        raise ValueError(LENGTHS)
    active = active_terms(indptr, spikes)
    parts = min(numba.get_num_threads(), active // max(y.size, 1))
    if active < ONE_THREAD_BELOW or parts < 2:
        csr_binary_rmatvec(data, indices, indptr, spikes, y, out)
    else:
        partials = np.zeros((parts, y.size), y.dtype)
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            scatter_active_rows(data, indices, indptr, spikes, partials[part], first, last)
        add_partials(y, partials, out)


@kernel
def csr_binary_rmatvec_cuda(data, indices, indptr, spikes, y, out):
    """Adds to ``out``, which is in the memory of ``y``. Each lane of a warp looks at a row; a vote finds the spikes.

    Then the warp takes the rows that spiked one after the other. All threads of a block share one that is far longer.
    """
    rows, threads = np.uint64(spikes.size), np.uint64(cuda.blockDim.x)
    place = np.uint64(cuda.threadIdx.x)
    lane, one = place % np.uint64(WARP), data.dtype.type(1)
    first = np.uint64(cuda.blockIdx.x) * threads
    while first < rows:  # the same for all threads of a block: they synchronise in syncthreads_or
        row = first + place
        start, stop = np.int32(0), np.int32(0)
        if row < rows and spikes[row]:
            start, stop = np.int32(indptr[row]), np.int32(indptr[row + np.uint64(1)])
        is_long = stop - start > WARP * LONG
        active = np.uint64(votes(stop > start and not is_long))
        while active != np.uint64(0):  # the same for all lanes of a warp
            source = np.int32(cuda.ffs(np.uint32(active))) - np.int32(1)
            active &= active - np.uint64(1)  # without its lowest bit
            begin, end = np.uint64(shuffle_from(start, source)), np.uint64(shuffle_from(stop, source))
            scatter_terms(data, indices, one, out, begin + lane, end, np.uint64(WARP))
        if cuda.syncthreads_or(1 if is_long else 0):
            row = first
            while row < rows and row < first + threads:
                if spikes[row]:
                    begin, end = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                    if end - begin > np.uint64(WARP * LONG):
                        scatter_terms(data, indices, one, out, begin + place, end, threads)
                row += np.uint64(1)
        first += np.uint64(cuda.gridDim.x) * threads


def _launch(inputs, outs):
    # At least one block: without rows the result is y, which a launch of no block would not write.
    blocks = max(min(-(-inputs[3].shape[0] // THREADS), 1 << 20), 1)
    return {"grid": blocks, "block": THREADS, "input_output_aliases": {4: 0}}


@functools.cache
def csr_binary_rmatvec_warp(dtype):
    """LANES threads share a row on a GPU, and each adds its part to ``y``. On the CPU one thread has the row."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_binary_rmatvec(
        data: vector, indices: integers, indptr: integers, spikes: wp.array(dtype=wp.bool), y: vector
    ):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes and spikes[row]:
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                wp.atomic_add(y, indices[k], data[k])

    return csr_binary_rmatvec


def _launch_warp(inputs, outs):
    if inputs[0].shape != inputs[1].shape or inputs[2].shape[0] != inputs[3].shape[0] + 1:
        raise ValueError(LENGTHS)
    return {"launch_dims": inputs[3].shape[0] * LANES, "in_out_argnames": ["y"]}


def _reference(data, indices, indptr, spikes, y):
    each = jnp.repeat(spikes, jnp.diff(indptr), total_repeat_length=data.size)
    return [y.at[indices].add(jnp.where(each, data, jnp.zeros_like(data)))]


def _truth(data, indices, indptr, spikes, y):
    """A term passes through as many additions as its column has non-zeros in rows that spiked, in any order."""
    active = np.repeat(spikes, np.diff(indptr))
    targets, terms = indices[active], wide(data[active])
    with np.errstate(invalid="ignore", over="ignore"):
        value, condition = wide(y), np.abs(wide(y))
        np.add.at(value, targets, terms)
        np.add.at(condition, targets, np.abs(terms))
    places = np.concatenate([np.arange(y.size), targets])
    partial = partial_sums_at(np.concatenate([wide(y), terms]), places, y.size)
    count = np.bincount(targets, minlength=y.size)
    bound = {"condition": condition, "partial": partial, "quantum": np.minimum(quantum(terms), quantum(y))}
    return Truth((bounded(value, y.dtype, **bound, terms=count, flushed=count + 1),))


def _vectors(dtype, rows, columns, random, rate=RATE):
    return random.random(rows) < rate, values(dtype, columns, random)


def _edges(dtype):
    random = np.random.default_rng(5)

    def call(lengths, columns=11, rate=0.5):
        return *csr(dtype, lengths, columns, random), *_vectors(dtype, len(lengths), columns, random, rate)

    cases = {
        **{name: call(lengths, rate=2) for name, lengths in EDGE_ROWS.items()},
        "no_columns": call([0, 0], 0),
        "some_rows_spike": call(EDGE_ROWS["some_long_rows"]),
        "rows_of_more_than_a_block": call([3] * 517, 1031),
        "no_spikes": call([5, 7, 3], rate=-1),
        "all_spike": call([5, 7, 3], rate=2),
        "only_the_last_spikes": call([5, 7, 3], rate=-1),
        "most_columns_empty": call([5, 0, 7], 1031, rate=2),
    }
    cases["only_the_last_spikes"][3][-1] = True
    data, indices, indptr, spikes, y = call([5, 0, 700, 3], rate=2)
    cases["all_in_one_column"] = (data, np.full_like(indices, 2), indptr, spikes, y)
    for name, (vector, each, ends) in special_csr(dtype).items():
        cases[name] = (vector, each, ends, np.ones(3, bool), vector[::-1].copy())
    # The synapses of a neuron that did not spike must not matter, even if their weights are NaN or infinite.
    vector = vectors(dtype)["nan"]
    columns, ends = np.arange(vector.size, dtype=np.int32), np.arange(vector.size + 1, dtype=np.int32)
    cases["silent_nan"] = (vector, columns, ends, ~np.isnan(vector), np.ones(vector.size, dtype))
    return cases


def _active(indptr, spikes):
    """The number of non-zeros in the rows of neurons that spiked."""
    return int(np.diff(np.asarray(indptr))[np.asarray(spikes)].sum())


def _bytes_read(data, indices, indptr, spikes, y):
    """No kernel has to read the other rows."""
    terms = _active(indptr, spikes)
    return total_bytes(indptr, spikes, y) + terms * (data.dtype.itemsize + indices.dtype.itemsize)


OPERATOR = Operator(
    name="csr_binary_rmatvec",
    version=1,
    outputs=lambda data, indices, indptr, spikes, y: [jax.ShapeDtypeStruct(y.shape, y.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": csr_binary_rmatvec,
        "numba_parallel": csr_binary_rmatvec_parallel,
        "numba_cuda": CudaKernel(csr_binary_rmatvec_cuda, _launch, atomic=True),
        "warp": WarpKernel(csr_binary_rmatvec_warp, _launch_warp, atomic=True),
    },
    peers=peers.CSR_BINARY_RMATVEC,
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
                np.ones(1, bool),
                np.ones(3, np.float32),
            ),
            {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(LENGTHS)},
        ),
    ),
    gradient=Gradient({0: 0, 4: 0}, sizes=(2100,)),
    bytes_read=_bytes_read,
    bytes_written=lambda data, indices, indptr, spikes, y: total_bytes(y),
    flops=lambda data, indices, indptr, spikes, y: _active(indptr, spikes),
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
