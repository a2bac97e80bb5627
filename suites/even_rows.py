"""Declares sparse products on 200,000 rows and columns, with 200 non-zeros in each row at random columns.

``kernel-bridge bench suites.even_rows --device cuda --peers`` times them beside cuSPARSE and brainevent. Nominal size
is the number of non-zeros. The samples of the built-in operators have rows of very different lengths instead.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from suites.declare.aspects import Sizes
from suites.declare.operator import Operator
from suites.kernels.sparse import csr
from suites.numerics.arrays import Array
from suites.ops import operators

EACH = 200
"""Non-zeros of a row."""

SIZES = Sizes(check=(2000,), large=100_000, cuda_quick=(40_000_000,), cuda_full=(40_000_000,))

Others = Callable[[np.random.Generator, int], tuple[Array, ...]]
"""Returns the inputs after the matrix, given a source of numbers and the number of rows."""


def _values(random: np.random.Generator, count: int) -> Array:
    return random.standard_normal(count, np.float32)


def _on_even_rows(name: str, operator: str, others: Others) -> Operator:
    def sample(dtype: str, size: int, seed: int) -> tuple[Array, ...]:
        random = np.random.default_rng(seed)
        rows = max(size // EACH, 1)
        data, indices, indptr = csr(dtype, np.full(rows, EACH), rows, random)
        return data, indices, indptr, *others(random, rows)

    return dataclasses.replace(operators()[operator], name=name, sample=sample, dtypes=("float32",), sizes=SIZES)


def _spikes(rate: float) -> Others:
    return lambda random, rows: (random.random(rows) < rate,)


MATVEC = _on_even_rows("csr_matvec_even", "csr_matvec", lambda random, rows: (_values(random, rows),))
RMATVEC = _on_even_rows(
    "csr_rmatvec_even", "csr_rmatvec", lambda random, rows: (_values(random, rows), _values(random, rows))
)
BINARY_1 = _on_even_rows("csr_binary_matvec_1", "csr_binary_matvec", _spikes(0.01))
BINARY_10 = _on_even_rows("csr_binary_matvec_10", "csr_binary_matvec", _spikes(0.1))
