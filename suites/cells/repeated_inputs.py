"""Makes large sample inputs of elementwise operators by repeating a smaller sample, so that the truth stays cheap.

The truth of 2**26 elements takes minutes of NumPy. So inputs above :data:`REPEATED_ABOVE` elements repeat with an odd
period, which shares no factor with the extents of blocks and warps. A result is right everywhere if it is right in the
first period and equal in all others: :mod:`suites.checks.judging.cell_verdict` requires this.
"""

from __future__ import annotations

import numpy as np

from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs

REPEATED_ABOVE = 1 << 24
"""Larger inputs repeat with period :data:`PERIOD`, in elements."""

PERIOD = 1025**2
"""Elements of a period: odd, and a square because some samples are square matrices."""


def repeats(operator: Operator, size: int) -> bool:
    """Tells whether samples of this size repeat."""
    return operator.elementwise and size > REPEATED_ABOVE


def sample(operator: Operator, dtype: str, size: int, seed: int) -> Inputs:
    """Returns the operator's sample; a large one repeats the sample of one period as vectors."""
    if not repeats(operator, size):
        return operator.sample(dtype, size, seed)
    period = operator.sample(dtype, PERIOD, seed)
    # An array of one element at any size is a parameter, such as a threshold or a time constant.
    return tuple(array if array.size == 1 else np.resize(array, size) for array in period)
