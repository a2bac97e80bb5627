"""csr_matmat: the product of a sparse matrix in CSR form and a dense one; nominal size is its number of non-zeros.

Precondition: as for csr_matvec; ``indices`` lie within the rows of ``X``.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    EDGE_ROWS,
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    bounded,
    csr,
    csr_sample,
    most_in_one_place,
    quantum,
    special_csr,
    total_bytes,
    value_errors,
    values,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import ONE_THREAD_BELOW, is_csr, rows_of_part
from suites.backends.numba_cuda import csr_product_narrow, product_kernel, product_launch
from suites.backends.warp import FOUR, LANES, on_gpu, scalar, vectors_of, wp
from suites.backends.warp_rows import sum_of_lanes

COLUMNS = 8
"""Columns of the dense matrix in a sample."""

LENGTHS = "csr_matmat: data and indices must have one length"


@numba.njit(fastmath={"reassoc"})
def csr_product_rows(data, indices, indptr, X, out, first, last):
    """The rows from ``first`` up to ``last``, four non-zeros at a time: so it passes less often through out.

    Unsigned indices never count from the end. So LLVM sees that columns are neighbours.
    """
    columns = np.uint64(out.shape[1])
    for row in range(np.uint64(first), np.uint64(last)):
        for j in range(columns):
            out[row, j] = 0
        k, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
        while k + np.uint64(3) < stop:
            k1, k2, k3 = k + np.uint64(1), k + np.uint64(2), k + np.uint64(3)
            a, b, c, d = data[k], data[k1], data[k2], data[k3]
            ia, ib = np.uint32(indices[k]), np.uint32(indices[k1])
            ic, id_ = np.uint32(indices[k2]), np.uint32(indices[k3])
            for j in range(columns):
                out[row, j] += (a * X[ia, j] + b * X[ib, j]) + (c * X[ic, j] + d * X[id_, j])
            k += np.uint64(4)
        while k < stop:
            a, ia = data[k], np.uint32(indices[k])
            for j in range(columns):
                out[row, j] += a * X[ia, j]
            k += np.uint64(1)


@numba.njit
def csr_matmat(data, indices, indptr, X, out):
    if not is_csr(data, indices, indptr, out.shape[0]):
        raise ValueError(LENGTHS)
    csr_product_rows(data, indices, indptr, X, out, 0, out.shape[0])


@numba.njit(parallel=True)
def csr_matmat_parallel(data, indices, indptr, X, out):
    if data.size < ONE_THREAD_BELOW:
        csr_matmat(data, indices, indptr, X, out)
    else:
        if not is_csr(data, indices, indptr, out.shape[0]):
            raise ValueError(LENGTHS)
        parts = numba.get_num_threads()
        for part in numba.prange(parts):
            first, last = rows_of_part(indptr, part, parts)
            csr_product_rows(data, indices, indptr, X, out, first, last)


GROUP = 8
"""The most neighbouring columns that a Warp thread takes as one vector."""


@functools.cache
def csr_matmat_warp(dtype, width):
    """LANES threads share a row of ``width`` columns, as in csr_matvec."""
    element = scalar(dtype)
    group = wp.types.vector(width, element)
    vector, matrix, integers = wp.array(dtype=element), wp.array2d(dtype=group), wp.array(dtype=wp.int32)

    @wp.kernel(module="unique")
    def csr_matmat(data: vector, indices: integers, indptr: integers, X: matrix, out: matrix):
        row, j, lane = wp.tid()
        lanes = wp.min(LANES, wp.block_dim())
        if lane < lanes:
            total = group()
            for k in range(indptr[row] + lane, indptr[row + 1], lanes):
                total += data[k] * X[indices[k], j]
            wp.atomic_add(out, row, j, total)

    return csr_matmat


THREADS_OF_ROW = 16
"""Threads that share a row of fewer than 32 columns, along its columns and its non-zeros.

On a GPU 32 take 0.87 times as long for the sample of 2**22 non-zeros and 8 columns, but on the CPU, where all but one
have nothing to do, 1.3 times.
"""

MOST_FOURS = 8
"""The most threads along the columns of a row if each takes four: then a row of X fills a line of 128 bytes."""


@functools.cache
def csr_matmat_fours_warp(dtype, width, groups, sum_of_lanes=sum_of_lanes):
    """A thread takes four neighbouring columns of a row, in one load of 16 bytes of a row of X.

    Groups of threads share the non-zeros of a row, and add up by shuffles. The ``width`` threads of a group take other
    columns, and load the same non-zeros from the first cache. The threads of the next columns run later: on a GPU the
    part of X that has 32 columns stays in the cache where all of X does not.

    On the CPU every other thread of the first group takes the columns of its neighbour, too, so that it passes less
    often through the row. The others have nothing to do.
    """
    element = scalar(dtype)
    vector, matrix, integers = wp.array(dtype=element), wp.array2d(dtype=element), wp.array(dtype=wp.int32)
    four, load_four, store_four, aligned, load, store = vectors_of(dtype)
    eight, load_eight, store_eight, *_ = vectors_of(dtype, GROUP)
    sum_over_groups = sum_of_lanes(dtype, width, groups)

    # In a function: the adjoint of a kernel does not know the result of a loop in it. The loads of four terms are under
    # way at once.
    @wp.func
    def part(data: vector, indices: integers, X: matrix, in_vectors: bool, column: int, first: int, stop: int):
        total = four()
        turns = wp.max(stop - first + groups - 1, 0) // (4 * groups)
        for turn in range(turns):
            a = first + 4 * groups * turn
            b, c, d = a + groups, a + 2 * groups, a + 3 * groups
            xa, xb = load(X[indices[a]], column, in_vectors), load(X[indices[b]], column, in_vectors)
            xc, xd = load(X[indices[c]], column, in_vectors), load(X[indices[d]], column, in_vectors)
            total += (data[a] * xa + data[b] * xb) + (data[c] * xc + data[d] * xd)
        for k in range(first + 4 * groups * turns, stop, groups):
            total += data[k] * load(X[indices[k]], column, in_vectors)
        return total

    @wp.kernel(module="unique")
    def csr_matmat(data: vector, indices: integers, indptr: integers, X: matrix, out: matrix):
        section, index = wp.tid()
        row, group, lane = index // (width * groups), index % (width * groups) // width, index % width
        column = (section * width + lane) * FOUR
        if on_gpu():
            in_vectors = aligned(X[0]) and aligned(out[0])
            own = wp.min(column, X.shape[1] - FOUR)
            total = part(data, indices, X, in_vectors, own, indptr[row] + group, indptr[row + 1])
            total = sum_over_groups(total)
            if group == 0 and column < X.shape[1]:
                store(out[row], column, in_vectors, total)
        elif group == 0 and column % GROUP == 0 and column < X.shape[1]:
            if column + GROUP <= X.shape[1]:
                both = eight()
                for k in range(indptr[row], indptr[row + 1]):
                    both += data[k] * load_eight(X[indices[k]], column)
                store_eight(out[row], column, both)
            else:
                last = four()
                for k in range(indptr[row], indptr[row + 1]):
                    last += data[k] * load_four(X[indices[k]], column)
                store_four(out[row], column, last)

    return csr_matmat


def groups_of(columns):
    """Width and number of the groups of threads that share a row.

    If a group has MOST_FOURS threads, there are threads enough: two groups take 1.09 times as long for 64 columns.
    """
    width = 1
    while width < MOST_FOURS and width * FOUR < columns:
        width *= 2
    return width, 1 if width == MOST_FOURS else THREADS_OF_ROW // width


def csr_matmat_in_groups(inputs, outs):
    """Takes columns in groups, so that the CPU computes a group with one vector instruction."""
    if inputs[0].shape != inputs[1].shape:
        raise ValueError(LENGTHS)
    (rows, columns), dtype = outs[0].shape, outs[0].dtype
    if columns % FOUR == 0 and columns:
        width, groups = groups_of(columns)
        return bridge.jax_kernel(
            csr_matmat_fours_warp(str(dtype), width, groups),
            launch_dims=(-(-columns // (width * FOUR)), rows * width * groups),
            output_dims=(rows, columns),
        )
    width = math.gcd(columns, GROUP)
    groups = columns // width
    product = bridge.jax_kernel(
        csr_matmat_warp(str(dtype), width), launch_dims=(rows, groups, LANES), in_out_argnames=["out"]
    )

    def csr_matmat(data, indices, indptr, X):
        start = jnp.zeros((rows, groups, width), dtype)
        (out,) = product(data, indices, indptr, X.reshape(X.shape[0], groups, width), start)
        return [out.reshape(rows, columns)]

    return csr_matmat


def _reference(data, indices, indptr, X):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    return [jax.ops.segment_sum(data[:, None] * X[indices], rows, indptr.size - 1, indices_are_sorted=True)]


def _truth(data, indices, indptr, X):
    """A product is rounded once and passes through fewer additions than its row has non-zeros, in any order."""
    lengths = np.diff(indptr)
    filled = lengths > 0
    with np.errstate(invalid="ignore", over="ignore"):
        products = wide(data)[:, None] * wide(X)[indices]
        value, condition = (np.zeros((lengths.size, X.shape[1]), products.dtype) for _ in range(2))
        if products.size:
            value[filled] = np.add.reduceat(products, indptr[:-1][filled], axis=0)
            condition[filled] = np.add.reduceat(np.abs(products), indptr[:-1][filled], axis=0)
    bound = {"condition": condition, "quantum": quantum(data) * quantum(X)}
    return Truth((bounded(value, data.dtype, **bound, terms=lengths[:, None] + 1, flushed=lengths[:, None] + 1),))


def _dense(dtype, rows, inner, random, columns=COLUMNS):
    return (values(dtype, inner * columns, random).reshape(inner, columns),)


def _edges(dtype):
    """Numbers of rows and columns that fill no block, and special values among the non-zeros or in one row of X."""
    random = np.random.default_rng(5)

    def matrices(lengths, inner=11, columns=COLUMNS):
        return *csr(dtype, lengths, inner, random), *_dense(dtype, len(lengths), inner, random, columns)

    cases = {
        **{name: matrices(lengths) for name, lengths in EDGE_ROWS.items()},
        "one_element": matrices([1], 1, 1),
        "no_columns": matrices([5, 7, 3], columns=0),
        "one_column": matrices([5, 0, 700, 3], columns=1),
        "odd_columns": matrices([5, 0, 300, 3], columns=37),
        "long_row_and_many_columns": matrices([1, 1200, 3], columns=40),
    }
    data, indices, indptr, X = matrices([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, X)
    unread = X.copy()
    unread[3] = np.nan
    cases["nan_that_no_index_names"] = (data, np.where(indices == 3, 4, indices).astype(np.int32), indptr, unread)
    for name, (vector, each, ends) in special_csr(dtype).items():
        cases[name] = (vector, each, ends, np.ones((vector.size, 3), dtype))
        # The special values are in one column of X. The results of the other columns must not change.
        X = np.ones((vector.size, 3), dtype)
        X[:, 1] = vector
        cases[f"{name}_column"] = (np.ones(vector.size, dtype), each, ends, X)
    return cases


OPERATOR = Operator(
    name="csr_matmat",
    version=1,
    outputs=lambda data, indices, indptr, X: [jax.ShapeDtypeStruct((indptr.shape[0] - 1, X.shape[1]), data.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": csr_matmat,
        "numba_parallel": csr_matmat_parallel,
        "numba_cuda": CudaKernel(csr_product_narrow, product_launch, select=product_kernel),
        "warp": WarpCallable(csr_matmat_in_groups, calls=1, atomic=True),
    },
    peers=peers.CSR_MATMAT,
    dtypes=("float32", "float64"),
    sample=csr_sample(_dense),
    after_csr=_dense,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (
                np.ones(5, np.float32),
                np.zeros(4, np.int32),
                np.array([0, 5], np.int32),
                np.ones((3, COLUMNS), np.float32),
            ),
            {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors(LENGTHS)},
        ),
    ),
    gradient=Gradient(
        {
            0: lambda data, indices, indptr, X: X.shape[1],
            3: lambda data, indices, indptr, X: most_in_one_place(indices) + 1,
        }
    ),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, X: (indptr.size - 1) * X.shape[1] * data.dtype.itemsize,
    flops=lambda data, indices, indptr, X: 2 * data.size * X.shape[1],
    # Truth has a product for each non-zero and column.
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,), cuda_full=(4096, 2**16, 2**20, 2**22, 2**24), quick_by_name=True),
)
