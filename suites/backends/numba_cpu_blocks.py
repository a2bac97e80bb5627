"""Gives Numba CPU kernels sums that LLVM vectorises, with a known chain of roundings."""

from __future__ import annotations

import math
from decimal import Decimal

import numba
import numpy as np
from numba.extending import overload

from suites.numerics.blocked_sums import BLOCK

ONE_THREAD_BELOW = 1 << 15
"""Below so many elements one thread is enough: handing half to a second one takes about 5 us, as long as the work."""

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
    """Sum in blocks. Its chain of roundings is :func:`suites.numerics.blocked_sums.blocked_terms`."""
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


def block_exp(x, center, out):
    """Exponentials of ``x - center``; returns their sum, in any order. No element is above ``center``.

    They are exact to two units in the last place. Results below the smallest normal number are zero.
    """
    raise NotImplementedError("for kernels only")


# LLVM does not vectorise a call of the exponential function, but it vectorises the arithmetic below. Let n be the
# integer next to d / ln 2. Then ``exp(d) = 2**n exp(d - n ln 2)``, where the second exponent is at most (ln 2) / 2, so
# that Taylor's series is short. Adding ``shifter``, whose last place is worth one, rounds to an integer. It leaves the
# integer in the low bits, and a shift to the left makes these the exponent of ``2**n``. ``high``, the first part of
# ln 2, has so few bits that its product with n is exact.


@overload(block_exp, jit_options={"fastmath": {"contract"}})
def _block_exp(x, center, out):
    real, integer = getattr(np, str(x.dtype)), getattr(np, f"int{x.dtype.bitwidth}")
    info = np.finfo(real)
    bits, bias = info.nmant, 1 - info.minexp
    shifter = real(1.5 * 2.0**bits)
    ln2 = Decimal(2).ln()
    short = 1 << (bits - bias.bit_length())
    ln2_high = int(ln2 * short) / short
    high, low, inverse = real(ln2_high), real(ln2 - Decimal(ln2_high)), real(1 / ln2)
    lowest = real(info.minexp * math.log(2))
    terms = {32: 7, 64: 13}[x.dtype.bitwidth]  # the next term is below a tenth of a rounding
    leading, *others = (real(1 / math.factorial(k)) for k in range(terms, -1, -1))
    coefficients = tuple(others)
    one = integer(bias << bits)

    def exponentials(x, center, out):
        powers = np.empty(x.size, real)
        for i in range(x.size):
            distance = x[i] - center
            shifted = distance * inverse + shifter
            n = shifted - shifter
            rest = (distance - n * high) - n * low
            value = leading
            for coefficient in coefficients:
                value = value * rest + coefficient
            out[i] = value
            powers[i] = shifted
        words = powers.view(integer)
        for i in range(x.size):
            words[i] = (words[i] << bits) + one
        return _scaled_sum(x, center, lowest, powers, out)

    return exponentials


@_reassociated
def _scaled_sum(x, center, lowest, powers, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        value = out[i] * powers[i]
        value = x.dtype.type(0) if x[i] - center < lowest else value
        out[i] = value
        total += value
    return total


@numba.njit
def block_largest(x):
    """The largest of the elements that are numbers; minus infinity if all are NaN.

    It keeps four maxima by hand, because LLVM does not vectorise a maximum that ignores NaN.
    """
    a = b = c = d = x.dtype.type(-np.inf)
    whole = x.size // 4 * 4
    for i in range(0, whole, 4):
        a = x[i] if x[i] > a else a
        b = x[i + 1] if x[i + 1] > b else b
        c = x[i + 2] if x[i + 2] > c else c
        d = x[i + 3] if x[i + 3] > d else d
    for i in range(whole, x.size):
        a = x[i] if x[i] > a else a
    a, c = b if b > a else a, d if d > c else c
    return c if c > a else a
