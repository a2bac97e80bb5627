"""Makes vectors of a dtype whose values break careless kernels."""

from __future__ import annotations

import numpy as np

from suites.numerics.arrays import Array, kind_of
from suites.numerics.error_model import finfo


def vectors(dtype: str) -> dict[str, Array]:
    """Edge cases of one vector by name: sizes for all dtypes, extremes for integers, special values for real floats."""
    random = np.random.default_rng(7)
    cases = {
        "empty": np.zeros(0, dtype),
        "one": np.full(1, 3, dtype),
        "odd": values(dtype, 1031, random),
    }
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return cases | {"extremes": np.array([limits.min, limits.max, 0, 1, limits.max, limits.min, 5], dtype)}
    if kind_of(dtype) != "f":
        return cases
    info = finfo(dtype)
    subnormal = info.smallest_subnormal
    # One length for all: a program is compiled once per shape. Six elements do not fill steps of four.
    special = {
        "nan": [1, np.nan, -2, 3, np.nan, 4],
        "negative_nan": [1, np.copysign(np.nan, -1), -2, 3, 4, -5],
        "inf": [1, np.inf, 2, np.inf, 0, -3],
        "minus_inf": [-np.inf, 1, -np.inf, 2, -3, 4],
        "both_infs": [np.inf, 1, -np.inf, 2, -3, 4],
        "minus_zero": [-0.0, 0.0, -0.0, -0.0, 0.0, -0.0],
        "negative": [-1, -2, -0.5, -7, -1, -3],
        "subnormal": [subnormal, -subnormal, info.tiny / 2, subnormal * 3, -info.tiny / 4, subnormal * 5],
        "tiny": [info.tiny, -info.tiny, info.tiny * 1.5, info.tiny * 3, -info.tiny * 2, info.tiny],
        "huge": [info.max, info.max / 2, info.max / 4, info.max / 8, info.max / 16, info.max / 32],
    }
    # A kernel with several partial maxima or sums has to look for NaN in each of them.
    among_many = values(dtype, cases["odd"].size, random)
    among_many[[3, 600]] = np.nan
    named = {name: np.array(vector, dtype) for name, vector in special.items()}
    return cases | named | {"nan_among_many": among_many}


def values(dtype: str, size: int, random: np.random.Generator) -> Array:
    """Typical values: normal floats of either sign, small integers of either sign (none below zero if unsigned).

    Half of the booleans are true, and both parts of complex numbers are normal.
    """
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.random(size) < 0.5
    if kind.kind == "c":
        return (random.standard_normal(size) + 1j * random.standard_normal(size)).astype(kind)
    if kind.kind in "iu":
        return random.integers(-100 if kind.kind == "i" else 0, 100, size).astype(kind)
    return random.standard_normal(size).astype(kind)
