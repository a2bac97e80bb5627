"""Draws sparse matrices in CSR form whose structure breaks careless kernels."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suites.checks.drawn.drawn_arrays import SEEDS, SIZES
from suites.numerics.arrays import Array

ROWS = (1, 7, 33)
"""Rows of sparse matrices."""

COLUMNS = 37
"""Columns of sparse matrices; with more non-zeros, some column has several."""


@dataclass(frozen=True)
class Csr:
    """A sparse matrix. Row r has the values ``data[indptr[r]:indptr[r+1]]``, in the columns ``indices`` of that slice.

    The columns of a row come in any order, some more than once.
    """

    data: Array
    indices: Array
    indptr: Array
    columns: int

    @property
    def lengths(self) -> Array:
        """Non-zeros of each row."""
        return np.diff(self.indptr)

    def dense(self) -> Array:
        """The matrix with all its zeros. Values in the same place are added up."""
        matrix = np.zeros((self.lengths.size, self.columns), self.data.dtype)
        np.add.at(matrix, (np.repeat(np.arange(self.lengths.size), self.lengths), self.indices), self.data)
        return matrix


@st.composite
def csr(
    draw: st.DrawFn,
    dtype: str,
    rows: Sequence[int] = ROWS,
    nonzeros: Sequence[int] = (0, *SIZES),
    columns: int = COLUMNS,
    values: st.SearchStrategy[Any] | None = None,
) -> Csr:
    """Matrices whose rows differ in length: equal rows, empty rows, or one row with nearly all non-zeros.

    Args:
        dtype: The dtype of the values.
        rows: Numbers of rows to choose from.
        nonzeros: Numbers of non-zeros to choose from.
        columns: How many columns there are, at least one.
        values: Draws one value; by default they are normal numbers from a drawn seed.
    """
    row_count, count = draw(st.sampled_from(rows)), draw(st.sampled_from(nonzeros))
    indptr = np.array([0, *draw(_ends(row_count, count))], np.int32)
    if values is None:
        data = np.random.default_rng(draw(SEEDS)).standard_normal(count).astype(dtype)
    else:
        data = draw(arrays(dtype, count, elements=values, fill=values))
    return Csr(data, draw(_columns(count, columns)), indptr, columns)


def _ends(rows: int, count: int) -> st.SearchStrategy[list[int]]:
    """The end of each row; the last row ends at ``count``."""
    anywhere = st.lists(st.integers(0, count), min_size=rows - 1, max_size=rows - 1).map(sorted)
    even = st.just([count * row // rows for row in range(1, rows)])
    one_long = st.integers(0, rows - 1).map(lambda long: [0] * long + [count] * (rows - 1 - long))
    nearly_all = st.integers(0, rows - 1).map(functools.partial(_one_each_but, rows, count))
    return (anywhere | even | one_long | nearly_all).map(lambda ends: [*ends, count])


def _one_each_but(rows: int, count: int, long: int) -> list[int]:
    """The ends of all rows but the last. Each row but one has one non-zero, as long as there are enough."""
    lengths = [1] * rows
    lengths[long] = max(count - rows + 1, 0)
    return [min(end, count) for end in itertools.accumulate(lengths)][:-1]


def _columns(count: int, columns: int) -> st.SearchStrategy[Array]:
    """Columns in any order: spread over all, or nearly all the same."""
    spread = SEEDS.map(lambda seed: np.random.default_rng(seed).integers(0, columns, count).astype(np.int32))
    one = st.integers(0, columns - 1)
    return spread | arrays(np.int32, count, elements=one, fill=one)
