"""Inputs of csr_matmat: samples and edge cases."""

import numpy as np

from suites import EDGE_ROWS, csr, special_csr, values

COLUMNS = 8
"""Columns of the dense matrix in a sample."""


def dense(dtype, rows, inner, random, columns=COLUMNS):
    return (values(dtype, inner * columns, random).reshape(inner, columns),)


def edges(dtype):
    """Numbers of rows and columns that fill no block, and special values among the non-zeros or in one row of X."""
    random = np.random.default_rng(5)

    def matrices(lengths, inner=11, columns=COLUMNS):
        return *csr(dtype, lengths, inner, random), *dense(dtype, len(lengths), inner, random, columns)

    cases = {
        **{name: matrices(lengths) for name, lengths in EDGE_ROWS.items()},
        "one_element": matrices([1], 1, 1),
        "no_columns": matrices([5, 7, 3], columns=0),
        "one_column": matrices([5, 0, 700, 3], columns=1),
        "odd_columns": matrices([5, 0, 300, 3], columns=37),
        "long_row_and_many_columns": matrices([1, 1200, 3], columns=40),
    }
    data, indices, indptr, X = matrices([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, X)
    unread = X.copy()
    unread[3] = np.nan
    cases["nan_that_no_index_names"] = (data, np.where(indices == 3, 4, indices).astype(np.int32), indptr, unread)
    for name, (vector, each, ends) in special_csr(dtype).items():
        cases[name] = (vector, each, ends, np.ones((vector.size, 3), dtype))
        # The special values are in one column of X. The results of the other columns must not change.
        X = np.ones((vector.size, 3), dtype)
        X[:, 1] = vector
        cases[f"{name}_column"] = (np.ones(vector.size, dtype), each, ends, X)
    return cases
