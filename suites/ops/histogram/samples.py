"""Inputs of histogram: samples and edge cases."""

import numpy as np

from suites import vectors

BINS = 128
"""Bins of a sample."""


def _call(x, dtype, bins, random):
    """Converts x to integers, which rounds down."""
    return np.floor(x).astype(dtype) if np.dtype(dtype).kind == "i" else x.astype(dtype), _counts(bins, random)


def _counts(bins, random):
    return random.integers(0, 100, bins).astype(np.int32)


def sample(dtype, size, seed):
    """Elements are normally distributed over the bins, with one in twenty outside."""
    random = np.random.default_rng(seed)
    return _call(random.normal(BINS / 2, BINS / 4, size), dtype, BINS, random)


def edges(dtype):
    random = np.random.default_rng(5)
    cases = {
        "empty": _call(np.zeros(0), dtype, 7, random),
        "no_bins": _call(np.arange(5.0), dtype, 0, random),
        "one": _call(np.zeros(1), dtype, 1, random),
        "odd": _call(random.uniform(-3, 40, 1031), dtype, 37, random),
        "all_in_one_bin": _call(np.full(5000, 3.0), dtype, 5, random),
        "all_outside": _call(np.array([-1.0, 5, 100, -100]), dtype, 5, random),
        "more_bins_than_elements": _call(random.uniform(0, 1031, 33), dtype, 1031, random),
        "more_bins_than_shared_memory_has": _call(random.uniform(-9, 5009, 7000), dtype, 5000, random),
    }
    if np.dtype(dtype).kind == "i":
        return cases | {"extremes": (vectors(dtype)["extremes"], _counts(5, random))}
    # No subnormal numbers: a negative one that is flushed to zero lies in the first bin.
    for name in ("nan", "negative_nan", "both_infs", "minus_zero", "tiny", "huge"):
        cases[name] = (vectors(dtype)[name], _counts(5, random))
    # The neighbours of the bins' ends, and numbers that rounding towards zero would put into the first bin.
    ends = np.arange(6, dtype=dtype)
    beside = [np.nextafter(ends, np.array(side, dtype)) for side in (-9, 9)]
    cases["ends_of_bins"] = (np.concatenate([ends, beside[0][1:], beside[1][1:]]), _counts(5, random))
    cases["between_minus_one_and_zero"] = (np.array([-0.5, -0.999, -1e-3, 0.5], dtype), _counts(5, random))
    return cases
