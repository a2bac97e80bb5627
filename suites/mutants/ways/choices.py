"""Right and wrong ways to count, choose and round, and to compute with integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from suites.mutants.ways.kind import FINITE, kind, one

# Counting, choosing and rounding.


def _bins(dtype: str, size: int, seed: int) -> Any:
    return (np.random.default_rng(seed).integers(0, 16, size).astype(dtype),)


kind(
    "histogram",
    lambda index: jnp.zeros(16, jnp.int32).at[index].add(1),
    {
        "one by one": lambda index: np.bincount(index, minlength=16).astype(np.int32),
        "bin by bin": lambda index: np.array([(index == b).sum() for b in range(16)], np.int32),
    },
    {
        "last bin joined": lambda index: np.bincount(np.minimum(index, 14), minlength=16).astype(np.int32),
        "each once": lambda index: (np.bincount(index, minlength=16) > 0).astype(np.int32),
        "neighbours once": lambda index: np.bincount(
            index[np.append(True, index[1:] != index[:-1])], minlength=16
        ).astype(np.int32),
    },
    dtypes=("int32",),
    sample=_bins,
)


kind(
    "quantise",
    lambda x: jnp.clip(jnp.round(x / 0.05), -128, 127).astype(jnp.int8),
    {
        "divided": lambda x: np.clip(np.rint(x / one(x, 0.05)), -128, 127).astype(np.int8),
        "times twenty": lambda x: np.clip(np.rint(x * one(x, 20)), -128, 127).astype(np.int8),
        "clipped first": lambda x: np.rint(np.clip(x / one(x, 0.05), -128, 127)).astype(np.int8),
    },
    {
        "floor": lambda x: np.clip(np.floor(x / one(x, 0.05)), -128, 127).astype(np.int8),
        "towards zero": lambda x: np.clip(x / one(x, 0.05), -128, 127).astype(np.int8),
        "unclipped": lambda x: np.rint(x / one(x, 0.05)).astype(np.int64).astype(np.int8),
        "clipped at -127": lambda x: np.clip(np.rint(x / one(x, 0.05)), -127, 127).astype(np.int8),
    },
    domains={"x": FINITE},
)


kind(
    "first maximum",
    lambda x: jnp.argmax(x).astype(jnp.int32),
    {"by NumPy": lambda x: np.int32(np.argmax(x)), "of two halves": lambda x: np.int32(_argmax_of_halves(x))},
    {
        "last of ties": lambda x: np.int32(x.size - 1 - np.argmax(x[::-1])),
        "of magnitudes": lambda x: np.int32(np.argmax(abs(x))),
        "from zero on": lambda x: np.int32(_argmax_from_zero(x)),
        "minimum": lambda x: np.int32(np.argmin(x)),
    },
    domains={"x": FINITE},
)


def _argmax_of_halves(x: Any) -> int:
    n = x.size // 2
    if not n:
        return 0
    first, second = int(np.argmax(x[:n])), n + int(np.argmax(x[n:]))
    return second if x[second] > x[first] else first


def _argmax_from_zero(x: Any) -> int:
    best, top = 0, 0.0
    for i, value in enumerate(x):
        if value > top:
            best, top = i, value
    return best


kind(
    "clip",
    lambda x: jnp.clip(x, -30.0, 30.0),
    {"two steps": lambda x: np.minimum(np.maximum(x, one(x, -30)), one(x, 30))},
    {
        "at 29": lambda x: np.clip(x, -30, 29).astype(x.dtype),
        "above 31 alone": lambda x: np.where(x > 31, 30, np.maximum(x, one(x, -30))).astype(x.dtype),
        "one side": lambda x: np.minimum(x, one(x, 30)),
        "NaN to the limit": lambda x: np.where(x > -30, np.where(x < 30, x, 30), -30).astype(x.dtype),
        "at the limit to zero": lambda x: np.where(abs(x) == 30, 0, np.clip(x, -30, 30)).astype(x.dtype),
    },
)

# Integers.

kind(
    "integer sum",
    lambda x: jnp.sum(x, dtype=x.dtype),
    {
        "chain": lambda x: np.add.reduce(x, dtype=x.dtype),
        "backwards": lambda x: np.add.reduce(x[::-1], dtype=x.dtype),
        "in another type": lambda x: np.add.reduce(x.astype(np.uint64), dtype=np.uint64).astype(x.dtype),
    },
    {
        "through floats": lambda x: np.array(np.sum(x.astype(np.float64))).astype(np.int64).astype(x.dtype)[()],
        "saturating": lambda x: x.dtype.type(min(max(sum(map(int, x)), np.iinfo(x.dtype).min), np.iinfo(x.dtype).max)),
        "in 32 bits": lambda x: np.add.reduce(x.astype(np.int32), dtype=np.int32).astype(x.dtype),
    },
    dtypes=("int64", "uint64"),
)

kind(
    "integer average",
    lambda x, y: (x & y) + ((x ^ y) >> 1),
    {"in a wider type": lambda x, y: ((x.astype(np.int64) + y.astype(np.int64)) >> 1).astype(x.dtype)},
    {
        "overflowing": lambda x, y: (x + y) >> 1,
        "towards zero": lambda x, y: np.trunc((x.astype(float) + y) / 2).astype(x.dtype),
        "by halves": lambda x, y: (x >> 1) + (y >> 1),
    },
    dtypes=("int32",),
)


kind(
    "upper half of words",
    lambda x: x >> jnp.asarray(32, x.dtype),
    {"divided": lambda x: x // np.uint64(2**32)},
    {
        "as signed": lambda x: (x.astype(np.int64) >> 32).astype(x.dtype),
        "through floats": lambda x: (x.astype(np.float64) / 2.0**32).astype(x.dtype),
        "of 32 bits": lambda x: (x.astype(np.uint32) >> np.uint32(16)).astype(x.dtype),
    },
    dtypes=("uint64",),
)

kind(
    "any",
    lambda x: jnp.any(x),
    {"one by one": lambda x: np.bool_(max(map(bool, x)))},
    {
        "first only": lambda x: np.bool_(x[0]),
        "all": lambda x: np.all(x),
        "last one dropped": lambda x: np.any(x[:-1]),
        "first eight": lambda x: np.any(x[:8]),
    },
    dtypes=("bool",),
)

kind(
    "difference of doubles",
    lambda x, y: x - y,
    {"turned": lambda x, y: -(y - x)},
    {"in single precision": lambda x, y: (x.astype(np.float32) - y.astype(np.float32)).astype(x.dtype)},
    dtypes=("float64",),
)
