"""Numba building blocks that the operators' kernels share: sums that vectorise with a known chain of roundings."""

from __future__ import annotations

import numba
import numpy as np

from suites.accuracy import BLOCK as BLOCK  # the operators' kernels import it from here

ONE_THREAD_BELOW = 1 << 15
"""Elements below which one thread is enough: handing half to a second one takes about 5 us, as long as the work."""

# Reassociation lets LLVM keep several partial sums in vector registers; without it every addition waits for the one
# before. The order within a block is then free, which the error model allows for. NaN, infinities and the sign of zero
# keep their meaning: no other fast-math flag is set.
_reassociated = numba.njit(fastmath={"reassoc"})


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
    """Sum in blocks: the chain of roundings is :func:`suites.accuracy.blocked_terms`."""
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
    """The rows of a CSR matrix that one of several threads takes, as a range: all get the same share of elements."""
    starts, count = indptr[:-1], indptr[-1]
    first = np.searchsorted(starts, count * part // parts) if part else 0
    last = np.searchsorted(starts, count * (part + 1) // parts) if part + 1 < parts else starts.size
    return first, last
