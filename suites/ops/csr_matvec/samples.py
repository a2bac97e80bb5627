"""Inputs of csr_matvec."""

import numpy as np

from suites import EDGE_ROWS, csr, special_csr, values


def vector(dtype, rows, columns, random):
    return (values(dtype, columns, random),)


def edges(dtype):
    random = np.random.default_rng(5)

    def matrix(lengths, columns=11):
        return *csr(dtype, lengths, columns, random), *vector(dtype, len(lengths), columns, random)

    cases = {
        **{name: matrix(lengths) for name, lengths in EDGE_ROWS.items()},
        "one_element": matrix([1], 1),
    }
    data, indices, indptr, x = matrix([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, x)
    for name, special in special_csr(dtype).items():
        cases[name] = (*special, np.ones(special[0].size, dtype))
    return cases
