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
from suites.backends.numba_cuda import LANE_TERMS, THREADS, WARP, csr_row_sums, csr_rows_of, device, roomy_kernel
from suites.backends.warp import LANES, scalar, wp, zeros

RATE = 0.05
"""The share of neurons that spike in a sample."""

LENGTHS = "csr_binary_matvec: data and indices must have one length"


@numba.njit
def csr_binary_rows(data, indices, indptr, spikes, out, first, last):
    """The rows from ``first`` up to ``last``. It does not read the weights of neurons that did not spike."""
    for row in range(first, last):
        total = data.dtype.type(0)
        for k in range(indptr[row], indptr[row + 1]):
            if spikes[np.uint32(indices[k])]:
                total += data[k]
        out[row] = total


@numba.njit
def csr_binary_matvec(data, indices, indptr, spikes, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    csr_binary_rows(data, indices, indptr, spikes, out, 0, out.size)


@numba.njit(parallel=True)
def csr_binary_matvec_parallel(data, indices, indptr, spikes, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    if data.size < ONE_THREAD_BELOW:
        csr_binary_rows(data, indices, indptr, spikes, out, 0, out.size)
    else:
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_binary_rows(data, indices, indptr, spikes, out, first, last)


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


@device
def four_places(k, step, last):
    """Four elements, ``step`` apart from k on; the last one instead of those beyond it."""
    return min(k, last), min(k + step, last), min(k + step * np.uint64(2), last), min(k + step * np.uint64(3), last)


@device
def four_of(array, k):
    return array[np.uint64(k[0])], array[np.uint64(k[1])], array[np.uint64(k[2])], array[np.uint64(k[3])]


@device
def sum_of_active(data, k, active):
    zero = data.dtype.type(0)
    return ((data[k[0]] if active[0] else zero) + (data[k[1]] if active[1] else zero)) + (
        (data[k[2]] if active[2] else zero) + (data[k[3]] if active[3] else zero)
    )


@device
def active_part_of_long_row(data, indices, spikes, first, stop, step):
    """As :func:`active_part`, eight spikes at a time.

    A lane waits for an index, then for a spike, then for a weight. A row of 256 elements, on 32 lanes, waits only once.
    """
    total = data.dtype.type(0)
    k = first
    while k < stop:
        last, further = stop - np.uint64(1), k + step * np.uint64(4)
        k0, k1 = four_places(k, step, last), four_places(further, step, last)
        index0, index1 = four_of(indices, k0), four_of(indices, k1)
        spike0, spike1 = four_of(spikes, index0), four_of(spikes, index1)
        # A place that is not the one asked for is beyond the end: its element counts elsewhere.
        active0 = (
            spike0[0],
            spike0[1] and k + step < stop,
            spike0[2] and k + step * np.uint64(2) < stop,
            spike0[3] and k + step * np.uint64(3) < stop,
        )
        active1 = (
            spike1[0] and further < stop,
            spike1[1] and further + step < stop,
            spike1[2] and further + step * np.uint64(2) < stop,
            spike1[3] and further + step * np.uint64(3) < stop,
        )
        total += sum_of_active(data, k0, active0) + sum_of_active(data, k1, active1)
        k += step * np.uint64(8)
    return total


csr_binary_matvec_cuda = csr_row_sums(active_part)
csr_binary_matvec_of_long_rows = csr_row_sums(active_part_of_long_row, roomy_kernel(THREADS, 5))


def kernel_for_rows(inputs, outs):
    """The kernel for the mean length of a row. Eight spikes at a time pay where a lane has more than four elements.

    On an H200 they take less time for rows of 200 elements, and took 1.16 times as long for rows of 32.
    """
    rows, terms = outs[0].shape[0], inputs[0].shape[0]
    return csr_binary_matvec_of_long_rows if terms > rows * WARP * LANE_TERMS else csr_binary_matvec_cuda


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
        "numba_cuda": CudaKernel(csr_binary_matvec_cuda, csr_rows_of, select=kernel_for_rows),
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
