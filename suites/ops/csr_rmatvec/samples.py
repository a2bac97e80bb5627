"""Inputs of csr_rmatvec: samples and edge cases."""

import numpy as np

from suites import EDGE_ROWS, csr, special_csr, values


def vectors(dtype, rows, columns, random):
    return values(dtype, rows, random), values(dtype, columns, random)


def edges(dtype):
    random = np.random.default_rng(5)

    def call(lengths, columns=11):
        return *csr(dtype, lengths, columns, random), *vectors(dtype, len(lengths), columns, random)

    cases = {
        **{name: call(lengths) for name, lengths in EDGE_ROWS.items()},
        "no_columns": call([0, 0], 0),
        "one_element": call([1], 1),
        "most_columns_empty": call([5, 0, 7], 1031),
    }
    data, indices, indptr, x, y = call([5, 0, 700, 3])
    cases["all_in_one_column"] = (data, np.full_like(indices, 2), indptr, x, y)
    for name, (vector, each, ends) in special_csr(dtype).items():
        ones = np.ones(vector.size, dtype)
        cases[name] = (vector, each, ends, np.ones(3, dtype), vector[::-1].copy())
        # A row for each value. All are added up in column 1; the other columns must not change.
        targets = np.full(vector.size, 1, np.int32)
        cases[f"{name}_x"] = (ones, targets, np.arange(vector.size + 1, dtype=np.int32), vector, np.zeros(3, dtype))
    # An empty row reaches no target, even if x is NaN or infinite there.
    data, indices, indptr, x, y = call([2, 0, 3])
    x[1] = np.nan
    cases["nan_of_an_empty_row"] = (data, indices, indptr, x, y)
    return cases
