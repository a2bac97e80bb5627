"""Inputs of csr_binary_matvec."""

import numpy as np

from suites import EDGE_ROWS, csr, special_csr

RATE = 0.05
"""The share of neurons that spike in a sample."""


def spikes_of(dtype, rows, columns, random, rate=RATE):
    return (random.random(columns) < rate,)


def edges(dtype):
    random = np.random.default_rng(5)

    def matrix(lengths, columns=11, rate=0.5):
        return *csr(dtype, lengths, columns, random), *spikes_of(dtype, len(lengths), columns, random, rate)

    cases = {
        **{name: matrix(lengths) for name, lengths in EDGE_ROWS.items()},
        "nospikes_of": matrix([5, 7, 3], rate=-1),
        "all_spike": matrix([5, 7, 3], rate=2),
    }
    data, indices, indptr, spikes = matrix([5, 7, 3])
    cases["duplicate_indices"] = (data, np.full_like(indices, 2), indptr, np.ones_like(spikes))
    for name, (vector, each, ends) in special_csr(dtype).items():
        cases[name] = (vector, each, ends, np.ones(vector.size, bool))
    # The weight of a neuron that did not spike must not matter, even if it is NaN or infinite.
    vector, each, ends = special_csr(dtype)["nan"]
    cases["silent_nan"] = (vector, each, ends, ~np.isnan(vector))
    return cases
