"""Finds sums that no kernel rounds: of whole numbers, or of multiples of one power of two.

If all terms are multiples of a power of two q, then so are all partial sums, in any order of the additions. If the sum
of the absolute values is at most ``2**p q``, where p is the number of bits of the dtype's significand, then every
partial sum fits the dtype: nothing is rounded, with or without fused multiplications. Such a sum has no error, so any
missing or truncated term is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suites.numerics.arrays import Array

_BITS = 64
"""Bits of the integers that hold significands."""


def elementwise(array: Array) -> Array:
    """Returns the lowest set bit of each element, as a power of two; infinite for 0, and 0 for infinities and NaN."""
    values = np.asarray(array)
    with np.errstate(all="ignore"):
        if values.dtype.kind in "iub":
            values = values.astype(np.longdouble)
        elif values.dtype != np.longdouble:
            values = values.astype(np.float64)
        fraction, exponent = np.frexp(values)
        finite = np.isfinite(fraction)
        wide = fraction.dtype == np.longdouble
        bits = _BITS if wide else 53
        whole = np.ldexp(np.abs(np.where(finite, fraction, 0)), bits).astype(np.uint64)
        lowest = whole & (~whole + np.uint64(1))
        quanta = np.ldexp(lowest.astype(np.float64), np.minimum(exponent - bits, 1000))
        return np.where(~finite, 0.0, np.where(whole == 0, np.inf, quanta))


def nothing_rounded(sizes: Any, quanta: Any, bits: int, tiny: float) -> Any:
    """Returns where sums are exact in every order.

    Args:
        sizes: The sums of the absolute values of the terms.
        quanta: The quantum of the terms.
        bits: The bits of the significand of the dtype, 24 for float32.
        tiny: The smallest normal number of the dtype. Smaller ones may be flushed to zero.
    """
    with np.errstate(all="ignore"):
        return (np.asarray(sizes) <= np.ldexp(1.0, bits) * np.asarray(quanta)) & (np.asarray(quanta) >= tiny)
