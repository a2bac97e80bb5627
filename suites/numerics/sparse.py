"""Makes sparse matrices in CSR form whose rows differ in length, as in simulations of networks."""

from __future__ import annotations

import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.edges import values

MEAN = 32
"""Non-zeros of a row on average."""

LEAST_ROWS = 7
"""Rows of a small matrix: a matrix of one row and one column says nothing of either."""

SOME_LONG_ROWS = (*[1] * 200, 31, 32, 33, 47, 64, 65, 100)
"""Lengths of rows, some of them just above and below those that a whole block of a GPU shares.

See :mod:`suites.backends.numba_cuda_blocks`.
"""


def row_lengths(count: int, random: np.random.Generator) -> Array:
    """Lengths of rows that have ``count`` non-zeros together, ``MEAN`` on average.

    There are at least ``LEAST_ROWS`` rows, if there are as many non-zeros. They
    spread over two orders of magnitude, like the degrees of a network. One row in twenty is empty.
    """
    rows = max(min(count, LEAST_ROWS), count // MEAN, 1)
    weights = random.lognormal(0, 1, rows) * (random.random(rows) > 0.05)
    weights = weights if weights.any() else np.ones(rows)
    return random.multinomial(count, weights / weights.sum())


def csr(dtype: str, lengths: Array, columns: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """``data``, ``indices`` and ``indptr`` of a matrix; the columns of a row come in any order, some more than once."""
    count = int(lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = random.integers(0, columns, count).astype(np.int32)
    return values(dtype, count, random), indices, indptr
