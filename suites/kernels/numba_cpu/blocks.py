"""Gives Numba CPU kernels sums with a known chain of roundings, and maxima, which use vector registers."""

from __future__ import annotations

import numba
import numpy as np

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.lanes import (
    add_products,
    either_mask,
    first_lane,
    lane_count,
    larger_lanes,
    largest_lane,
    load_first_lanes,
    load_lanes,
    nan_lanes,
    store_first_lanes,
    store_sums,
    sum_of_lanes,
    zero_lanes,
)
from suites.kernels.numba_cpu.math import exponential

ONE_THREAD_BELOW = 1 << 15
"""Below so many elements one thread is enough: handing half to a second one takes about 5 us, as long as the work."""

IN_FIRST_CACHE = 512
"""Sets of lanes of a matrix that stays in the first cache of a core, with room for other arrays: 32 KiB."""

# Reassociation lets LLVM keep several partial sums in vector registers. Without it, every addition waits for the one
# before. The order of additions within a block is then free; the error model allows for that. No other fast-math flag
# is set, so NaN, infinities and the sign of zero keep their meaning.
_reassociated = numba.njit(fastmath={"reassoc"})


@numba.njit
def copy_to(out, x):
    """``out[:] = x`` of vectors, without the broadcasting that Numba would take seconds to compile."""
    for i in range(out.size):
        out[i] = x[i]


@_reassociated
def block_sum(x):
    """Sum of a few elements, in any order."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    return total


@_reassociated
def block_dot(x, y):
    """Inner product of two short vectors, summed in any order."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@_reassociated
def block_squares(x, center):
    """Sum of squared distances to ``center``, in any order."""
    total = x.dtype.type(0)
    for i in range(x.size):
        distance = x[i] - center
        total += distance * distance
    return total


@numba.njit
def blocked_sum(x):
    """Sum in blocks of :data:`BLOCK` terms."""
    total = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        total += block_sum(x[start : start + BLOCK])
    return total


@numba.njit
def blocked_dot(x, y):
    """Inner product in blocks."""
    total = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        total += block_dot(x[start : start + BLOCK], y[start : start + BLOCK])
    return total


@numba.njit
def blocked_squares(x, center):
    """Sum of squared distances to ``center``, in blocks."""
    total = x.dtype.type(0)
    for start in range(0, x.size, BLOCK):
        total += block_squares(x[start : start + BLOCK], center)
    return total


@numba.njit
def block_count(size):
    """How many blocks ``size`` elements fill."""
    return (size + BLOCK - 1) // BLOCK


@numba.njit
def rows_of_part(indptr, part, parts):
    """The first and last row that one of several threads takes of a CSR matrix. All threads get as many elements."""
    starts, count = indptr[:-1], indptr[-1]
    first = np.searchsorted(starts, count * part // parts) if part else 0
    last = np.searchsorted(starts, count * (part + 1) // parts) if part + 1 < parts else starts.size
    return first, last


@numba.njit
def is_csr(data, indices, indptr, rows):
    """Whether the lengths of the arrays fit together as a CSR matrix of so many rows."""
    return indptr.size == rows + 1 and data.size == indices.size


@numba.njit(parallel=True)
def add_partials(start, partials, out):
    """``out`` is ``start`` plus all rows of ``partials``, which threads have filled, each its own."""
    for i in numba.prange(out.size):
        total = start[i]
        for part in range(partials.shape[0]):
            total += partials[part, i]
        out[i] = total


@numba.njit
def block_exp(x, center, out):
    """Exponentials of ``x - center``, see :func:`exponential`; returns their sum, in any order."""
    width, nothing = lane_count(x), x.dtype.type(-np.inf)
    total = zero_lanes(x)
    whole = x.size - x.size % width
    for start in range(0, whole, width):
        values = exponential(load_lanes(x, start) - center)
        store_first_lanes(out, start, width, values)
        total = total + values
    if whole < x.size:
        rest = x.size - whole
        # The other lanes are zero, or NaN as all others are.
        values = exponential(load_first_lanes(x, whole, rest, nothing) - center)
        store_first_lanes(out, whole, rest, values)
        total = total + values
    return sum_of_lanes(total)


@numba.njit
def multiply(x, factor):
    """Multiplies each element of a vector with a number."""
    width = lane_count(x)
    whole = x.size - x.size % width
    for start in range(0, whole, width):
        store_first_lanes(x, start, width, load_lanes(x, start) * factor)
    if whole < x.size:
        rest = x.size - whole
        store_first_lanes(x, whole, rest, load_first_lanes(x, whole, rest, factor) * factor)


@numba.njit
def largest_element(x):
    """The largest element of a non-empty vector; NaN if there is one.

    Four maxima of lanes are kept, because each takes several cycles. The maximum of two registers is one instruction
    if it ignores NaN, so NaN is looked for separately.
    """
    width = lane_count(x)
    rest = x.size % (4 * width)
    whole = x.size - rest
    a, b = load_first_lanes(x, whole, rest, x[0]), load_first_lanes(x, whole + width, rest - width, x[0])
    c = load_first_lanes(x, whole + 2 * width, rest - 2 * width, x[0])
    d = load_first_lanes(x, whole + 3 * width, rest - 3 * width, x[0])
    nan = either_mask(nan_lanes(a, b), nan_lanes(c, d))
    for i in range(0, whole, 4 * width):
        e, f = load_lanes(x, i), load_lanes(x, i + width)
        g, h = load_lanes(x, i + 2 * width), load_lanes(x, i + 3 * width)
        a, b, c, d = larger_lanes(a, e), larger_lanes(b, f), larger_lanes(c, g), larger_lanes(d, h)
        nan = either_mask(nan, either_mask(nan_lanes(e, f), nan_lanes(g, h)))
    if first_lane(nan) < width:
        return x.dtype.type(np.nan)
    return largest_lane(larger_lanes(larger_lanes(a, b), larger_lanes(c, d)))


@numba.njit
def short_dots(A, x, first, last, out):
    """Inner products of the rows from ``first`` up to ``last`` of A with x, of at most :data:`BLOCK` elements.

    A term passes through at most one addition for each set of lanes before it, one for the two sums of a row that has
    two, and one for each halving of the lanes.
    """
    row = first
    if A.size <= IN_FIRST_CACHE * lane_count(x):
        row = _dots_of_eight(A, x, first, last, out)
    _dots_of_two(A, x, row, last, out)


@numba.njit
def _dots_of_eight(A, x, first, last, out):
    """The products of eight rows at a time, see :func:`short_dots`; returns the first row that is left.

    Eight rows share the loads of x, and the additions of their lanes. That is half of the instructions of
    :func:`_dots_of_two`, and counts where A comes from the first cache. From others, rows come faster one by one.
    """
    width, columns, zero = lane_count(x), x.size, x.dtype.type(0)
    rest = columns % width
    whole = columns - rest
    end = load_first_lanes(x, whole, rest, zero)
    row = first
    while row + 8 <= last:
        a = b = c = d = e = f = g = h = zero_lanes(x)
        start = row * columns
        for j in range(0, whole, width):
            u, i = load_lanes(x, j), start + j
            a = add_products(a, load_lanes(A, i), u)
            b = add_products(b, load_lanes(A, i + columns), u)
            c = add_products(c, load_lanes(A, i + 2 * columns), u)
            d = add_products(d, load_lanes(A, i + 3 * columns), u)
            e = add_products(e, load_lanes(A, i + 4 * columns), u)
            f = add_products(f, load_lanes(A, i + 5 * columns), u)
            g = add_products(g, load_lanes(A, i + 6 * columns), u)
            h = add_products(h, load_lanes(A, i + 7 * columns), u)
        if rest:
            i = start + whole
            a = add_products(a, load_first_lanes(A, i, rest, zero), end)
            b = add_products(b, load_first_lanes(A, i + columns, rest, zero), end)
            c = add_products(c, load_first_lanes(A, i + 2 * columns, rest, zero), end)
            d = add_products(d, load_first_lanes(A, i + 3 * columns, rest, zero), end)
            e = add_products(e, load_first_lanes(A, i + 4 * columns, rest, zero), end)
            f = add_products(f, load_first_lanes(A, i + 5 * columns, rest, zero), end)
            g = add_products(g, load_first_lanes(A, i + 6 * columns, rest, zero), end)
            h = add_products(h, load_first_lanes(A, i + 7 * columns, rest, zero), end)
        store_sums(out, row, (a, b, c, d, e, f, g, h))
        row += 8
    return row


@numba.njit
def _dots_of_two(A, x, first, last, out):
    """The products of two rows at a time, see :func:`short_dots`. Each has two sums in each lane."""
    width, zero = lane_count(x), x.dtype.type(0)
    rest = x.size % (2 * width)
    whole = x.size - rest
    end, last_end = load_first_lanes(x, whole, rest, zero), load_first_lanes(x, whole + width, rest - width, zero)
    row = first
    while row < last:
        other = min(row + 1, last - 1)  # without another row, the last one is computed twice
        p, q = A[row], A[other]
        a = b = c = d = zero_lanes(x)
        for j in range(0, whole, 2 * width):
            u, v = load_lanes(x, j), load_lanes(x, j + width)
            a, b = add_products(a, load_lanes(p, j), u), add_products(b, load_lanes(p, j + width), v)
            c, d = add_products(c, load_lanes(q, j), u), add_products(d, load_lanes(q, j + width), v)
        if rest:
            a = add_products(a, load_first_lanes(p, whole, rest, zero), end)
            b = add_products(b, load_first_lanes(p, whole + width, rest - width, zero), last_end)
            c = add_products(c, load_first_lanes(q, whole, rest, zero), end)
            d = add_products(d, load_first_lanes(q, whole + width, rest - width, zero), last_end)
        out[row], out[other] = sum_of_lanes(a + b), sum_of_lanes(c + d)
        row += 2
