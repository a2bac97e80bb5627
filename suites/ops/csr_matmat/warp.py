"""Kernels of csr_matmat in Warp."""

import functools
import math

import jax.numpy as jnp

import bridge
from suites.kernels.warp.blocks import LANES, scalar, wp
from suites.kernels.warp.rows import sum_of_lanes
from suites.kernels.warp.vectors import FOUR, on_gpu, vectors_of
from suites.ops.csr_matmat.numba_cpu import LENGTHS

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
            enable_backward=True,  # the checks compare the gradients, which the bridge cannot see to be right
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
