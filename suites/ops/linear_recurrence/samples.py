"""Inputs of linear_recurrence: samples and edge cases."""

import math

import numpy as np

from suites import values, vectors


def _shape(size):
    """About four times as many steps as channels."""
    channels = max(1, math.isqrt(size) // 2)
    return max(1, size // channels), channels


def sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    steps, channels = _shape(size)
    a = random.uniform(0.9, 1, (steps, channels)).astype(dtype)
    return a, values(dtype, steps * channels, random).reshape(steps, channels), values(dtype, channels, random)


def edges(dtype):
    """Each vector as the drive of the first of two channels, and shapes that give threads no work or too much."""
    random = np.random.default_rng(9)
    cases = {}
    for name, vector in vectors(dtype).items():
        b = np.ones((vector.size, 2), dtype)
        b[:, 0] = vector
        cases[name] = (np.full(b.shape, 0.5, dtype), b, np.ones(2, dtype))
    for name, shape in {
        "no_channels": (7, 0),
        "one_step": (1, 9),
        "long_and_narrow": (600, 3),
        "short_and_wide": (3, 1031),
    }.items():
        a = random.uniform(-1, 1, shape).astype(dtype)
        cases[name] = (a, random.standard_normal(shape).astype(dtype), random.standard_normal(shape[1]).astype(dtype))
    ones = np.ones((37, 3), dtype)
    resets = np.where(np.arange(37)[:, None] % 5, ones, 0)
    nan_decay = ones.copy()
    nan_decay[20, 1] = np.nan
    nan_initial = np.array([1, np.nan, -np.inf], dtype)
    return cases | {
        "resets": (resets, ones, ones[0]),
        "sums": (ones, ones, ones[0]),
        "growth": (1.5 * ones, ones, ones[0]),
        "alternating": (-ones, ones, ones[0]),
        "nan_decay": (nan_decay, ones, ones[0]),
        "nan_initial": (ones / 2, ones, nan_initial),
        "zero_times_infinity": (resets, ones, np.array([np.inf, 1, -np.inf], dtype)),
    }
