"""csr_matvec: the product of a sparse matrix in CSR form and a dense vector; nominal size is its number of non-zeros.

Precondition: ``indptr`` rises from 0 to the number of non-zeros and ``indices`` lie within ``x``. Checking that would
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
    Gathers,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    csr,
    csr_sample,
    most_in_one_place,
    partial_sums_at,
    quantum,
    special_csr,
    total_bytes,
    value_errors,
    values,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, is_csr, rows_of_part
from suites.backends.numba_cuda import csr_row_sums, csr_rows_of, device, streamed
from suites.backends.numba_cuda_tables import (
    Stages,
    TableRows,
    bytes_of_elements,
    element_of,
    four_places,
    four_streamed,
    four_within,
    hold_elements,
    row_sums_with_table,
    second_four,
)
from suites.backends.warp import LANES, scalar, wp, zeros

LENGTHS = "csr_matvec: data and indices must have one length"


@numba.njit(fastmath={"reassoc"})
def sparse_dot(data, indices, x):
    """The sum of one row. :mod:`suites.backends.numba_cpu_blocks` says why additions may be reordered."""
    total = x.dtype.type(0)
    for k in range(data.size):
        total += data[k] * x[np.uint32(indices[k])]
    return total


@numba.njit
def csr_rows(data, indices, indptr, x, out, first, last):
    """The rows from ``first`` up to ``last``."""
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        out[row] = sparse_dot(data[start:stop], indices[start:stop], x)


@numba.njit
def csr_matvec(data, indices, indptr, x, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    csr_rows(data, indices, indptr, x, out, 0, out.size)


@numba.njit(parallel=True)
def csr_matvec_parallel(data, indices, indptr, x, out):
    if not is_csr(data, indices, indptr, out.size):
        raise ValueError(LENGTHS)
    if data.size < ONE_THREAD_BELOW:
        csr_rows(data, indices, indptr, x, out, 0, out.size)
    else:
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_rows(data, indices, indptr, x, out, first, last)


@device
def sparse_part(data, indices, x, first, stop, step):
    """One lane's part of a row's sum. It loads four terms at once, at the end of a row too: each takes long."""
    total = zero = data.dtype.type(0)
    k = first
    while k + step * np.uint64(3) < stop:
        k1, k2, k3 = k + step, k + step * np.uint64(2), k + step * np.uint64(3)
        i, i1, i2, i3 = streamed(indices, k), streamed(indices, k1), streamed(indices, k2), streamed(indices, k3)
        a, b, c, d = streamed(data, k), streamed(data, k1), streamed(data, k2), streamed(data, k3)
        total += (a * x[np.uint64(i)] + b * x[np.uint64(i1)]) + (c * x[np.uint64(i2)] + d * x[np.uint64(i3)])
        k += step * np.uint64(4)
    if k < stop:
        k1, k2, last = k + step, k + step * np.uint64(2), stop - np.uint64(1)
        l1, l2 = min(k1, last), min(k2, last)  # beyond the end the last term is loaded again and does not count
        i, i1, i2 = streamed(indices, k), streamed(indices, l1), streamed(indices, l2)
        a, b, c = streamed(data, k), streamed(data, l1), streamed(data, l2)
        p, q, r = a * x[np.uint64(i)], b * x[np.uint64(i1)], c * x[np.uint64(i2)]
        total += p + ((q if k1 < stop else zero) + (r if k2 < stop else zero))
    return total


csr_matvec_cuda = csr_row_sums(sparse_part)


@device
def fetch_terms(data, indices, first, stop, step):
    """The indices of a lane's terms, then their factors."""
    near, far = four_places(first, step), four_places(second_four(first, step), step)
    return (
        four_streamed(indices, near, stop),
        four_streamed(indices, far, stop),
        four_streamed(data, near, stop),
        four_streamed(data, far, stop),
    )


@device
def four_elements(x, table, index):
    return (
        element_of(x, table, index[0]),
        element_of(x, table, index[1]),
        element_of(x, table, index[2]),
        element_of(x, table, index[3]),
    )


@device
def look_up_elements(data, x, table, fetched, first, stop, step):
    return four_elements(x, table, fetched[0]), four_elements(x, table, fetched[1])


@device
def sum_of_products(zero, a, x, counts):
    """The sum of those products that count. Others may be infinite, or no numbers."""
    return ((a[0] * x[0] if counts[0] else zero) + (a[1] * x[1] if counts[1] else zero)) + (
        (a[2] * x[2] if counts[2] else zero) + (a[3] * x[3] if counts[3] else zero)
    )


@device
def add_up_products(data, fetched, found, first, stop, step):
    near = four_within(four_places(first, step), stop)
    far = four_within(four_places(second_four(first, step), step), stop)
    zero = data.dtype.type(0)
    return sum_of_products(zero, fetched[2], found[0], near) + sum_of_products(zero, fetched[3], found[1], far)


PRODUCTS = Stages(fetch_terms, look_up_elements, add_up_products)
WITH_TABLE = TableRows(row_sums_with_table(hold_elements, PRODUCTS, 1024, 1), 1024, 1, bytes_of_elements, least_uses=1)
"""On an H200 it takes 0.87 times as long for 200,000 rows of 200 elements: a block uses an element of x 1.5 times."""


@functools.cache
def csr_matvec_warp(dtype):
    """LANES threads share a row, and add up their parts by atomic operations. On the CPU one thread has the row."""
    element = scalar(dtype)
    vector, integers = wp.array(dtype=element), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_matvec(data: vector, indices: integers, indptr: integers, x: vector, out: vector):
        row, lane = wp.tid() // LANES, wp.tid() % LANES
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            total = element(0)
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                total += data[k] * x[indices[k]]
            wp.atomic_add(out, row, total)

    return csr_matvec


def _launch_warp(inputs, outs):
    if inputs[0].shape != inputs[1].shape:
        raise ValueError(LENGTHS)
    return {"launch_dims": outs[0].shape[0] * LANES, "in_out_argnames": ["out"]}


def _reference(data, indices, indptr, x):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    return [jax.ops.segment_sum(data * x[indices], rows, indptr.size - 1, indices_are_sorted=True)]


def _truth(data, indices, indptr, x):
    lengths = np.diff(indptr)
    rows = np.repeat(np.arange(lengths.size), lengths)
    with np.errstate(invalid="ignore", over="ignore"):
        products = wide(data) * wide(x)[indices]
        value, condition = (np.zeros(lengths.size, products.dtype) for _ in range(2))
        np.add.at(value, rows, products)
        np.add.at(condition, rows, np.abs(products))
    partial = partial_sums_at(products, rows, lengths.size)
    bound = {"condition": condition, "partial": partial, "quantum": quantum(data) * quantum(x)}
    return Truth((bounded(value, data.dtype, **bound, terms=lengths + 1, flushed=lengths + 1),))


def _vector(dtype, rows, columns, random):
    return (values(dtype, columns, random),)


def _edges(dtype):
    random = np.random.default_rng(5)

    def matrix(lengths, columns=11):
        return *csr(dtype, lengths, columns, random), *_vector(dtype, len(lengths), columns, random)

    cases = {
        **{name: matrix(lengths) for name, lengths in EDGE_ROWS.items()},
        "one_element": matrix([1], 1),
    }
    data, indices, indptr, x = matrix([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, x)
    for name, special in special_csr(dtype).items():
        cases[name] = (*special, np.ones(special[0].size, dtype))
    return cases


OPERATOR = Operator(
    name="csr_matvec",
    version=1,
    outputs=lambda data, indices, indptr, x: [jax.ShapeDtypeStruct((indptr.shape[0] - 1,), data.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": csr_matvec,
        "numba_parallel": csr_matvec_parallel,
        "numba_cuda": CudaKernel(
            csr_matvec_cuda, WITH_TABLE.launch_or(csr_rows_of), select=WITH_TABLE.kernel_or(csr_matvec_cuda)
        ),
        "warp": WarpKernel(csr_matvec_warp, _launch_warp, initial=zeros, atomic=True),
    },
    peers=peers.CSR_MATVEC,
    dtypes=("float32", "float64"),
    sample=csr_sample(_vector),
    after_csr=_vector,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.array([0, 5], np.int32), np.ones(3, np.float32)),
            {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors(LENGTHS)},
        ),
    ),
    gradient=Gradient({0: 1, 3: lambda data, indices, indptr, x: most_in_one_place(indices) + 1}),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, x: (indptr.size - 1) * data.dtype.itemsize,
    flops=lambda data, indices, indptr, x: 2 * data.size,
    gathers=Gathers(reads=lambda data, *_: data.size, table=lambda data, indices, indptr, x: x),
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24)),
)
