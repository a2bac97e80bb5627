"""Holds Numba-CUDA kernels of sparse matrices with faults in how lanes of a warp share rows and pass on non-zeros."""

import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cuda import (
    WARP,
    CudaKernel,
    csr_launch,
    csr_row_sums,
    csr_rows_of,
    cuda,
    device,
    kernel,
    place_in_block,
    shuffle_from,
    shuffle_xor,
    votes,
)
from suites.backends.numba_cuda_tables import (
    FLAGS,
    WORD,
    TableRows,
    bytes_of_bits,
    four_places,
    hold_bits,
    hold_elements,
    is_set,
    row_sums_with_table,
    second_four,
    streamed_if,
)
from suites.mutants.mutant import mutant
from suites.ops.csr_binary_matvec import ACTIVE
from suites.ops.csr_binary_matvec import OPERATOR as CSR_BINARY_MATVEC
from suites.ops.csr_binary_rmatvec import OPERATOR as CSR_BINARY_RMATVEC
from suites.ops.csr_matmat import OPERATOR as CSR_MATMAT
from suites.ops.csr_matvec import OPERATOR as CSR_MATVEC
from suites.ops.csr_matvec import PRODUCTS
from suites.ops.csr_rmatvec import OPERATOR as CSR_RMATVEC


@device
def full_groups(data, indices, x, first, stop, step):
    """Leaves out the terms at the end of a row that do not fill a group of four."""
    total = data.dtype.type(0)
    k = first
    while k + step * np.uint64(3) < stop:
        for _ in range(4):
            total += data[k] * x[np.uint64(indices[k])]
            k += step
    return total


@kernel
def half_of_the_group(data, indices, indptr, x, out):
    """The lanes of a row add up, but the last step of the shuffles is missing."""
    rows, lanes, lane = np.uint64(out.size), np.uint64(cuda.blockDim.x), np.uint64(cuda.threadIdx.x)
    row = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    total = data.dtype.type(0)
    if row < rows:
        k, stop = np.uint64(indptr[row]) + lane, np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            total += data[k] * x[np.uint64(indices[k])]
            k += lanes
    distance = 1
    while distance < cuda.blockDim.x // 2:
        total += shuffle_xor(total, distance)
        distance *= 2
    if lane == np.uint64(0) and row < rows:
        out[row] = total


@kernel
def lost_updates(data, indices, indptr, x, y, out):
    """Loads an element of ``out``, and stores it later: what other threads have added meanwhile is lost."""
    row = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    if row < np.uint64(x.size):
        k, stop = np.uint64(indptr[row]) + np.uint64(cuda.threadIdx.x), np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            out[np.uint64(indices[k])] += data[k] * x[row]
            k += np.uint64(cuda.blockDim.x)


@kernel
def one_spike_of_a_warp(data, indices, indptr, spikes, y, out):
    """Takes only the first of the rows of a warp that spiked."""
    row, lane = np.uint64(cuda.grid(1)), np.uint64(cuda.threadIdx.x) % np.uint64(WARP)
    active = votes(row < np.uint64(spikes.size) and spikes[min(row, np.uint64(spikes.size) - np.uint64(1))])
    if active != np.uint32(0):
        first = row - lane + np.uint64(cuda.ffs(active)) - np.uint64(1)
        k, stop = np.uint64(indptr[first]) + lane, np.uint64(indptr[first + np.uint64(1)])
        while k < stop:
            cuda.atomic.add(out, np.uint64(indices[k]), data[k])
            k += np.uint64(WARP)


@kernel
def swapped_bits(data, indices, indptr, spikes, out):
    """Looks spikes up in words of bits, but counts the bits from the wrong end."""
    row, lane = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.x)
    total = data.dtype.type(0)
    first = np.uint64(0)
    while first < np.uint64(spikes.size):
        word = votes(spikes[min(first + lane, np.uint64(spikes.size) - np.uint64(1))])
        k, stop = np.uint64(indptr[row]) + lane, np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            place = np.uint64(indices[k]) - first
            if place < np.uint64(WARP) and (word >> np.uint32(np.uint64(31) - place)) & np.uint32(1) != np.uint32(0):
                total += data[k]
            k += np.uint64(WARP)
        first += np.uint64(WARP)
    distance = 1
    while distance < WARP:
        total += shuffle_xor(total, distance)
        distance *= 2
    if lane == np.uint64(0):
        out[row] = total


@kernel
def repeated_last_term(data, indices, indptr, X, out):
    """A warp has a row, and a lane each column. The last term of a row is added for each missing one of 32."""
    row, lane = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.x)
    j = min(lane, np.uint64(out.shape[1]) - np.uint64(1))
    total = data.dtype.type(0)
    first, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
    while first < stop:
        k = min(first + lane, stop - np.uint64(1))
        value, index = data[k], indices[k]
        for source in range(WARP):
            weight, place = shuffle_from(value, source), shuffle_from(index, source)
            total += weight * X[np.uint64(place), j]
        first += np.uint64(WARP)
    if lane < np.uint64(out.shape[1]):
        out[row, lane] = total


@device
def last_element_again(data, indices, spikes, first, stop, step):
    """Looks two elements up at a time. Beyond the end of a row, its last element counts again."""
    total = data.dtype.type(0)
    k = first
    while k < stop:
        second = min(k + step, stop - np.uint64(1))
        total += (data[k] if spikes[np.uint64(indices[k])] else data.dtype.type(0)) + (
            data[second] if spikes[np.uint64(indices[second])] else data.dtype.type(0)
        )
        k += step * np.uint64(2)
    return total


@kernel
def first_group_alone(data, indices, indptr, X, out):
    """A warp has a row, lanes along x have columns, and groups along y have different terms: only one group counts."""
    row, group, groups = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.y), np.uint64(cuda.blockDim.y)
    j = np.uint64(cuda.threadIdx.x)
    while j < np.uint64(out.shape[1]):
        total = out.dtype.type(0)
        k, stop = np.uint64(indptr[row]) + group, np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            total += data[k] * X[np.uint64(indices[k]), j]
            k += groups
        if group == np.uint64(0):
            out[row, j] = total
        j += np.uint64(cuda.blockDim.x)


@device
def one_more_than_held(x, table, index):
    """Takes the element after the last one of the table from the table, too."""
    i, held = np.uint32(index), np.uint32(min(np.uint64(table.size), np.uint64(x.size)))
    near, far = table[min(i, np.uint32(held - np.uint32(1)))], x[i]
    return near if i <= held else far


@device
def four_more(x, table, index):
    return (
        one_more_than_held(x, table, index[0]),
        one_more_than_held(x, table, index[1]),
        one_more_than_held(x, table, index[2]),
        one_more_than_held(x, table, index[3]),
    )


@device
def look_up_one_more(data, x, table, fetched, first, stop, step):
    return four_more(x, table, fetched[0]), four_more(x, table, fetched[1])


@device
def hold_whole_words(table, flags):
    """Leaves out the flags at the end that fill no word."""
    whole = np.uint64(flags.size) >> np.uint64(4)
    i = place_in_block()
    while i < np.uint64(table.size):
        word = np.uint32(0)
        if i < whole:
            for k in range(FLAGS):
                if flags[(i << np.uint64(4)) + np.uint64(k)]:
                    word = np.uint32(word | np.uint32(1 << k))
        table[i] = word
        i += np.uint64(_TABLE_THREADS)


@device
def four_without_end(data, table, index, places):
    """Takes weights of the rows that follow: it does not ask where the row ends."""
    last = np.uint32(np.uint64(data.size) - np.uint64(1))
    return (
        streamed_if(data, min(places[0], last), is_set(table, index[0])),
        streamed_if(data, min(places[1], last), is_set(table, index[1])),
        streamed_if(data, min(places[2], last), is_set(table, index[2])),
        streamed_if(data, min(places[3], last), is_set(table, index[3])),
    )


@device
def look_up_without_end(data, spikes, table, fetched, first, stop, step):
    near, far = four_places(first, step), four_places(second_four(first, step), step)
    return four_without_end(data, table, fetched[0], near), four_without_end(data, table, fetched[1], far)


_TABLE_THREADS = 64


def _with_table(of, name, hold, stages, table_bytes, fault, word=None):
    """A mutant that uses its table whenever there is a non-zero."""
    kernel = row_sums_with_table(hold, stages, _TABLE_THREADS, 1, word)
    table, good = TableRows(kernel, _TABLE_THREADS, 1, table_bytes, 0), of.kernels[Backend.NUMBA_CUDA].dispatcher
    broken = CudaKernel(good, table.launch_or(csr_rows_of), select=table.kernel_or(good))
    return mutant(of, name, Backend.NUMBA_CUDA, broken, fault, gradient=None)


def _launch_in_place(inputs, outs):
    launch = csr_launch(max(inputs[3].shape[0], 1), inputs[0].shape[0])
    return launch | {"input_output_aliases": {4: 0}}


def _thread_a_row(inputs, outs):
    return {"grid": max(-(-inputs[3].shape[0] // WARP), 1), "block": WARP, "input_output_aliases": {4: 0}}


def _warp_a_row(inputs, outs):
    return {"grid": outs[0].shape[0], "block": WARP}


def _groups_a_row(inputs, outs):
    return {"grid": outs[0].shape[0], "block": (8, 4)}


def _sparse(of, name, dispatcher, launch, fault, atomic=False):
    """A mutant in one dtype only, which is enough to catch it."""
    kernel = CudaKernel(dispatcher, launch, atomic)
    return mutant(of, name, Backend.NUMBA_CUDA, kernel, fault, gradient=None)


MUTANTS = (
    _sparse(CSR_MATVEC, "full_groups", csr_row_sums(full_groups), csr_rows_of, "the last terms of a row are left out"),
    _sparse(CSR_MATVEC, "half_of_the_group", half_of_the_group, csr_rows_of, "one step of the shuffles is missing"),
    _sparse(CSR_RMATVEC, "lost_updates", lost_updates, _launch_in_place, "plain stores for atomic additions", True),
    _sparse(
        CSR_BINARY_RMATVEC,
        "one_spike_of_a_warp",
        one_spike_of_a_warp,
        _thread_a_row,
        "one row of a warp counts, though more spiked",
        True,
    ),
    _sparse(CSR_BINARY_MATVEC, "swapped_bits", swapped_bits, _warp_a_row, "bits of a word are counted from its end"),
    _sparse(
        CSR_BINARY_MATVEC,
        "last_element_again",
        csr_row_sums(last_element_again),
        csr_rows_of,
        "the last element of a row counts once more for a missing one",
    ),
    _with_table(
        CSR_MATVEC,
        "one_more_than_held",
        hold_elements,
        PRODUCTS._replace(look_up=look_up_one_more),
        lambda x: 2 * x.dtype.itemsize,
        "the element after the last one of a table is taken from the table",
    ),
    _with_table(
        CSR_BINARY_MATVEC,
        "whole_words_of_flags",
        hold_whole_words,
        ACTIVE,
        bytes_of_bits(1),
        "flags that fill no word are left out",
        WORD,
    ),
    _with_table(
        CSR_BINARY_MATVEC,
        "weights_of_the_next_rows",
        hold_bits,
        ACTIVE._replace(look_up=look_up_without_end),
        bytes_of_bits(1),
        "places beyond the end of a row count",
        WORD,
    ),
    _sparse(CSR_MATMAT, "first_group_alone", first_group_alone, _groups_a_row, "groups of lanes are not added up"),
    _sparse(CSR_MATMAT, "repeated_last_term", repeated_last_term, _warp_a_row, "terms beyond the end of a row count"),
)
