"""Makes sparse matrices in CSR form whose rows differ in length, as in simulations of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.edges import values, vectors

Matrix = tuple[Array, Array, Array]
"""``data``, ``indices`` and ``indptr``."""

Others = Callable[[str, int, int, np.random.Generator], tuple[Array, ...]]
"""Returns the inputs after the matrix, given a dtype, the numbers of rows and columns, and a source of numbers."""

MEAN = 32
"""Non-zeros of a row on average."""

LEAST_ROWS = 7
"""Rows of a small matrix: one row and one column would not show errors in rows or columns."""

EDGE_ROWS = {
    "no_rows": (),
    "all_rows_empty": (0, 0, 0),
    "first_and_last_empty": (0, 4, 0, 0, 3, 0),
    "one_long_row": (1, 0, 5000, 2, 0, 1),
    # Just above and below the lengths that a whole block of a GPU shares: suites.kernels.numba_cuda.sparse_blocks
    "some_long_rows": (*[1] * 200, 31, 32, 33, 47, 64, 65, 100),
    # Enough elements that CPU kernels share the rows among threads: the last thread also has to take the last rows.
    "last_of_many_empty": (*[40] * 900, 0, 0, 0),
}
"""Lengths of rows that break careless kernels, by name."""


def row_lengths(count: int, random: np.random.Generator) -> Array:
    """Returns lengths of rows with ``count`` non-zeros in all, ``MEAN`` on average.

    There are at least ``LEAST_ROWS`` rows, if there are as many non-zeros. The lengths spread over two orders of
    magnitude, like the degrees of a network. One row in twenty is empty.
    """
    rows = max(min(count, LEAST_ROWS), count // MEAN, 1)
    weights = random.lognormal(0, 1, rows) * (random.random(rows) > 0.05)
    weights = weights if weights.any() else np.ones(rows)
    return random.multinomial(count, weights / weights.sum())


def csr(dtype: str, lengths: Sequence[int] | Array, columns: int, random: np.random.Generator) -> Matrix:
    """Returns ``data``, ``indices`` and ``indptr``; a row has its columns in any order, some more than once."""
    indptr = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int32)
    count = int(indptr[-1])
    indices = random.integers(0, columns, count).astype(np.int32)
    return values(dtype, count, random), indices, indptr


def csr_sample(others: Others) -> Callable[[str, int, int], tuple[Array, ...]]:
    """Returns the ``sample`` of an operator: a square matrix with rows of different lengths, then the other inputs."""

    def sample(dtype: str, size: int, seed: int) -> tuple[Array, ...]:
        random = np.random.default_rng(seed)
        lengths = row_lengths(size, random)
        matrix = csr(dtype, lengths, lengths.size, random)
        return *matrix, *others(dtype, lengths.size, lengths.size, random)

    return sample


def special_csr(dtype: str) -> dict[str, Matrix]:
    """Returns matrices of three rows, the second one empty, with special values, each in its own column."""
    matrices = {}
    for name in ("nan", "both_infs", "subnormal", "huge", "minus_zero"):
        data = vectors(dtype)[name]
        matrices[name] = data, np.arange(data.size, dtype=np.int32), np.array([0, 1, 1, data.size], np.int32)
    return matrices
