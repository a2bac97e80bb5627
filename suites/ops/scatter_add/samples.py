"""Inputs of scatter_add: samples and edge cases."""

import numpy as np

from suites import kind_of, vectors
from suites import values as some_values

PER_SLOT = 8
"""The mean number of values per element of acc in a sample."""


def sample(dtype, size, seed):
    """The numbers of values per element differ by two orders of magnitude; some elements have none."""
    random = np.random.default_rng(seed)
    slots = max(1, size // PER_SLOT)
    weights = random.lognormal(0, 1, slots) * (random.random(slots) > 0.05)
    weights = weights if weights.any() else np.ones(slots)
    targets = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(size))
    return _call(dtype, np.minimum(targets, slots - 1), slots, random)


def _call(dtype, targets, slots, random):
    targets = np.asarray(targets, np.int32)
    scale = np.full(1, 0.3 if kind_of(dtype) == "f" else 3, dtype)
    return some_values(dtype, targets.size, random), targets, scale, some_values(dtype, slots, random)


def edges(dtype):
    random = np.random.default_rng(5)
    cases = {
        "no_values": _call(dtype, [], 7, random),
        "no_slots": _call(dtype, [], 0, random),
        "one": _call(dtype, [0], 1, random),
        "all_to_one": _call(dtype, np.full(1031, 2), 5, random),
        "one_each_backwards": _call(dtype, np.arange(257)[::-1], 257, random),
        "more_slots_than_values": _call(dtype, random.integers(0, 1031, 33), 1031, random),
    }
    names = ("nan", "both_infs", "subnormal", "huge", "minus_zero") if kind_of(dtype) == "f" else ("extremes",)
    for name in names:
        vector = vectors(dtype)[name]
        ones = np.ones(1, dtype)
        cases[name] = (vector, np.arange(vector.size, dtype=np.int32) // 2, ones, vector[::-1].copy())
    return cases
