"""csr_binary_matvec: for each row of a sparse matrix in CSR form, the sum of the weights of the neurons that spiked.

This is the product of the matrix and a vector of spikes. Nominal size is the number of non-zeros. Precondition: as for
csr_matvec.
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
    Gathers,
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
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, is_csr, rows_of_part
from suites.backends.numba_cuda import csr_row_sums, csr_rows_of, device
from suites.backends.numba_cuda_tables import (
    WORD,
    Stages,
    TableRows,
    bytes_of_bits,
    four_places,
    four_streamed,
    four_within,
    hold_bits,
    is_set,
    row_sums_with_table,
    second_four,
    streamed_if,
)
from suites.backends.warp import LANES, scalar, wp, zeros

RATE = 0.05
"""The share of neurons that spike in a sample."""

LENGTHS = "csr_binary_matvec: data and indices must have one length"

FEW = 8
"""Neurons for each non-zero. A matrix with more of them does not pay for a table of its neurons (:func:`is_tabled`)."""


@numba.njit
def is_tabled(data, spikes):
    """Whether a table saves more than it costs: an element takes a tenth of the time that a non-zero takes."""
    return spikes.size <= FEW * data.size


@numba.njit
def look_up_table(spikes):
    """1 for each neuron that spiked, else 0, as integers of 32 bits.

    A processor gathers these into vectors. It cannot gather bytes. Spikes may have any dtype: what is not zero is one.
    """
    table = np.empty(spikes.size, np.int32)
    for i in range(spikes.size):
        table[i] = spikes[i] != 0
    return table


@numba.njit(fastmath={"reassoc"})
def active_sum(data, indices, table):
    """The sum of one row. :mod:`suites.backends.numba_cpu_blocks` says why additions may be reordered.

    It reads each weight, and then decides whether it counts. To skip the others would take a jump that no processor
    foresees: at a tenth of spikes this is four times as fast, at a half twelve times.
    """
    total = zero = data.dtype.type(0)
    for k in range(data.size):
        weight = data[k]
        total += weight if table[np.uint32(indices[k])] else zero
    return total


@numba.njit
def csr_binary_rows(data, indices, indptr, table, out, first, last):
    """The rows from ``first`` up to ``last``."""
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        out[row] = active_sum(data[start:stop], indices[start:stop], table)


@numba.njit
def csr_binary_matvec(data, indices, indptr, spikes, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    if is_tabled(data, spikes):
        csr_binary_rows(data, indices, indptr, look_up_table(spikes), out, 0, out.size)
    else:
        csr_binary_rows(data, indices, indptr, spikes, out, 0, out.size)


@numba.njit(parallel=True)
def csr_binary_matvec_parallel(data, indices, indptr, spikes, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    if data.size < ONE_THREAD_BELOW or not is_tabled(data, spikes):
        csr_binary_matvec(data, indices, indptr, spikes, out)
    else:
        parts = numba.get_num_threads()
        table = look_up_table(spikes)
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_binary_rows(data, indices, indptr, table, out, first, last)


@device
def active_part(data, indices, spikes, first, stop, step):
    """One lane's part of a row's sum. It looks up four spikes at a time, then the weights of neurons that spiked."""
    total = zero = data.dtype.type(0)
    k = first
    while k + step * np.uint64(3) < stop:
        k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
        a, b = spikes[np.uint64(indices[k])], spikes[np.uint64(indices[k1])]
        c, d = spikes[np.uint64(indices[k2])], spikes[np.uint64(indices[k3])]
        if a or b or c or d:
            total += ((data[k] if a else zero) + (data[k1] if b else zero)) + (
                (data[k2] if c else zero) + (data[k3] if d else zero)
            )
        k += step * np.uint64(4)
    while k < stop:
        if spikes[np.uint64(indices[k])]:
            total += data[k]
        k += step
    return total


csr_binary_matvec_cuda = csr_row_sums(active_part)


@device
def fetch_indices(data, indices, first, stop, step):
    near, far = four_places(first, step), four_places(second_four(first, step), step)
    return four_streamed(indices, near, stop), four_streamed(indices, far, stop)


@device
def four_active(data, table, index, places, stop):
    """The weights at four places of neurons that spiked. Others are not read."""
    counts = four_within(places, stop)
    return (
        streamed_if(data, places[0], is_set(table, index[0]) & counts[0]),
        streamed_if(data, places[1], is_set(table, index[1]) & counts[1]),
        streamed_if(data, places[2], is_set(table, index[2]) & counts[2]),
        streamed_if(data, places[3], is_set(table, index[3]) & counts[3]),
    )


@device
def look_up_active(data, spikes, table, fetched, first, stop, step):
    near, far = four_places(first, step), four_places(second_four(first, step), step)
    return four_active(data, table, fetched[0], near, stop), four_active(data, table, fetched[1], far, stop)


@device
def add_up_active(data, fetched, found, first, stop, step):
    near, far = found
    return ((near[0] + near[1]) + (near[2] + near[3])) + ((far[0] + far[1]) + (far[2] + far[3]))


ACTIVE = Stages(fetch_indices, look_up_active, add_up_active)
WITH_TABLE = TableRows(row_sums_with_table(hold_bits, ACTIVE, 1024, 1, WORD), 1024, 1, bytes_of_bits(1), least_uses=1)
"""On an H200 it takes 0.5 to 0.6 times as long for 200,000 rows of 200 elements: a block uses a flag 1.5 times.

It took longer for rows of 32 elements on average, of which a block uses a flag 0.24 times.
"""


@functools.cache
def csr_binary_matvec_warp(dtype):
    """Threads share rows as in csr_matvec."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_binary_matvec(
        data: vector, indices: integers, indptr: integers, spikes: wp.array(dtype=wp.bool), out: vector
    ):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            total = element(0)
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                # No branch: the CPU would mispredict it, and a GPU would load the weight only after the spike.
                total += wp.where(spikes[indices[k]], data[k], element(0))
            wp.atomic_add(out, row, total)

    return csr_binary_matvec


def _launch_warp(inputs, outs):
    if inputs[0].shape != inputs[1].shape:
        raise ValueError(LENGTHS)
    return {"launch_dims": outs[0].shape[0] * LANES, "in_out_argnames": ["out"]}


def _reference(data, indices, indptr, spikes):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    active = jnp.where(spikes[indices], data, jnp.zeros_like(data))
    return [jax.ops.segment_sum(active, rows, indptr.size - 1, indices_are_sorted=True)]


def _truth(data, indices, indptr, spikes):
    lengths = np.diff(indptr)
    rows = np.repeat(np.arange(lengths.size), lengths)
    active = np.where(spikes[indices], wide(data), 0)
    value, condition = (np.zeros(lengths.size, active.dtype) for _ in range(2))
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(value, rows, active)
        np.add.at(condition, rows, np.abs(active))
    bound = {"condition": condition, "partial": partial_sums_at(active, rows, lengths.size), "quantum": quantum(active)}
    return Truth((bounded(value, data.dtype, **bound, terms=lengths, flushed=lengths + 1),))


def _spikes(dtype, rows, columns, random, rate=RATE):
    return (random.random(columns) < rate,)


def _edges(dtype):
    random = np.random.default_rng(5)

    def matrix(lengths, columns=11, rate=0.5):
        return *csr(dtype, lengths, columns, random), *_spikes(dtype, len(lengths), columns, random, rate)

    cases = {
        **{name: matrix(lengths) for name, lengths in EDGE_ROWS.items()},
        "no_spikes": matrix([5, 7, 3], rate=-1),
        "all_spike": matrix([5, 7, 3], rate=2),
    }
    data, indices, indptr, spikes = matrix([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, np.ones_like(spikes))
    for name, (vector, each, ends) in special_csr(dtype).items():
        cases[name] = (vector, each, ends, np.ones(vector.size, bool))
    # The weight of a neuron that did not spike must not matter, even if it is NaN or infinite.
    vector, each, ends = special_csr(dtype)["nan"]
    cases["silent_nan"] = (vector, each, ends, ~np.isnan(vector))
    return cases


OPERATOR = Operator(
    name="csr_binary_matvec",
    version=1,
    outputs=lambda data, indices, indptr, spikes: [jax.ShapeDtypeStruct((indptr.shape[0] - 1,), data.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": csr_binary_matvec,
        "numba_parallel": csr_binary_matvec_parallel,
        "numba_cuda": CudaKernel(
            csr_binary_matvec_cuda,
            WITH_TABLE.launch_or(csr_rows_of),
            select=WITH_TABLE.kernel_or(csr_binary_matvec_cuda),
        ),
        "warp": WarpKernel(csr_binary_matvec_warp, _launch_warp, initial=zeros, atomic=True),
    },
    peers=peers.CSR_BINARY_MATVEC,
    dtypes=("float32", "float64"),
    sample=csr_sample(_spikes),
    after_csr=_spikes,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.array([0, 5], np.int32), np.ones(3, bool)),
            {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(LENGTHS)},
        ),
    ),
    gradient=Gradient({0: 0}, sizes=(2100,)),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, spikes: (indptr.size - 1) * data.dtype.itemsize,
    flops=lambda data, indices, indptr, spikes: data.size,
    gathers=Gathers(reads=lambda data, *_: data.size, table=lambda data, indices, indptr, spikes: spikes),
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
