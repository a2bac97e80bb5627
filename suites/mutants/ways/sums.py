"""Right and wrong averages, sums, means, running sums and norms."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites import Domain
from suites.mutants.ways.kind import FINITE, SUMS, Way, chain, half, kahan, kind, lanes, one, pairwise, wide

# Averages, sums and means.

kind(
    "average of three",
    lambda a, b, c: (a + b + c) / 3,
    {
        "from the other end": lambda a, b, c: (c + b + a) / one(a, 3),
        "outer first": lambda a, b, c: (a + c + b) / one(a, 3),
        "divided one by one": lambda a, b, c: a / one(a, 3) + b / one(a, 3) + c / one(a, 3),
        "times a third": lambda a, b, c: (a + b + c) * one(a, 1 / 3),
        "each times a third": lambda a, b, c: a * one(a, 1 / 3) + (b * one(a, 1 / 3) + c * one(a, 1 / 3)),
        "in a wider type": lambda a, b, c: ((wide(a) + wide(b) + wide(c)) / 3).astype(a.dtype),
    },
    {
        "divided by two": lambda a, b, c: (a + b + c) / one(a, 2),
        "one twice": lambda a, b, c: (a + b + b) / one(a, 3),
        "a third with six digits": lambda a, b, c: (a + b + c) * one(a, 0.333333),
        "absolute value": lambda a, b, c: (a + abs(b) + c) / one(a, 3),
    },
    dtypes=("float32", "float64"),
)

kind(
    "average of two in few bits",
    lambda a, b: (a + b) / 2,
    {
        "halves": lambda a, b: a / one(a, 2) + b / one(a, 2),
        "in a wider type": lambda a, b: ((wide(a) + wide(b)) / 2).astype(a.dtype),
    },
    {
        "difference": lambda a, b: (a - b) / one(a, 2),
        "without the half": lambda a, b: a + b,
        "cut off": lambda a, b: (np.trunc(wide(a) * 16) / 32 + wide(b) / 2).astype(a.dtype),
    },
    dtypes=("float16",),
)


kind(
    "sum",
    lambda x: jnp.sum(x),
    {
        **SUMS,
        "lanes": lanes,
        "compensated": kahan,
        "in a wider type": lambda x: wide(x).sum().astype(x.dtype),
    },
    {
        "last one dropped": lambda x: chain(x[:-1]) if x.size > 1 else x[0],
        "first one twice": lambda x: chain(x) + x[0],
        "one in the middle dropped": lambda x: chain(np.delete(x, x.size // 2)) if x.size > 1 else x[0],
        "in half precision": lambda x: chain(half(x)),
        "of magnitudes": lambda x: chain(abs(x)),
        "NaN skipped": lambda x: chain(np.where(np.isnan(x), 0, x).astype(x.dtype)),
        "in half precision from the ninth on": lambda x: chain([*x[:8], *half(x[8:])]),
    },
    dtypes=("float32", "float64"),
)

kind(
    "mean",
    lambda x: jnp.mean(x),
    {
        "of a sum": lambda x: chain(x) / one(x, x.size),
        "of parts": lambda x: chain(v / one(x, x.size) for v in x),
        "running": lambda x: _running_mean(x),
        "of two halves": lambda x: (chain(x[::2]) + chain(x[1::2])) * one(x, 1 / x.size),
    },
    {
        "one less": lambda x: chain(x) / one(x, max(x.size - 1, 2)),
        "one more": lambda x: chain(x) / one(x, x.size + 1),
        "of all but the last": lambda x: chain(x[:-1]) / one(x, x.size - 1),
        "median": lambda x: np.median(x).astype(x.dtype),
    },
    domains={"x": FINITE},
)


def _running_mean(x: Any) -> Any:
    mean = x[0] * one(x, 1)
    for count, value in enumerate(x[1:], 2):
        mean = mean + (value - mean) / one(x, count)
    return mean


def _welford(x: Any) -> Any:
    mean, squares = x[0] * 0, x[0] * 0
    for count, value in enumerate(x, 1):
        away = value - mean
        mean = mean + away / one(x, count)
        squares = squares + away * (value - mean)
    return squares / one(x, x.size)


def _two_pass(x: Any, add: Way = chain) -> Any:
    mean = add(x) / one(x, x.size)
    return add((x - mean) * (x - mean)) / one(x, x.size)


def _corrected(x: Any) -> Any:
    """The two-pass algorithm with the correction of Chan, Golub and LeVeque."""
    n = one(x, x.size)
    away = x - chain(x) / n
    rest = chain(away)
    return (chain(away * away) - rest * rest / n) / n


def _merged(x: Any) -> Any:
    """Variances of two halves, merged by Chan's formula."""
    one_half, other = x[: x.size // 2], x[x.size // 2 :]
    n = one(x, x.size)
    means = [chain(part) / one(x, part.size) for part in (one_half, other)]
    squares = [chain((part - mean) * (part - mean)) for part, mean in zip((one_half, other), means, strict=True)]
    gap = means[1] - means[0]
    return (squares[0] + squares[1] + gap * gap * (one(x, one_half.size) * one(x, other.size) / n)) / n


kind(
    "variance",
    lambda x: jnp.mean((x - jnp.mean(x)) ** 2),
    {
        "two passes": _two_pass,
        "two passes in pairs": lambda x: _two_pass(x, pairwise),
        "by Welford": _welford,
        "corrected": _corrected,
        "merged halves": _merged,
        "in a wider type": lambda x: _two_pass(wide(x)).astype(x.dtype),
    },
    {
        "mean of squares less squared mean": lambda x: (
            chain(x * x) / one(x, x.size) - (chain(x) / one(x, x.size)) * (chain(x) / one(x, x.size))
        ),
        "one degree less": lambda x: _two_pass(x) * one(x, x.size) / one(x, x.size - 1),
        "mean of magnitudes": lambda x: chain(abs(x - chain(x) / one(x, x.size))) / one(x, x.size),
        "without the mean": lambda x: chain(x * x) / one(x, x.size),
        "second bracket in half precision": lambda x: (
            chain((x - chain(x) / one(x, x.size)) * half(x - chain(x) / one(x, x.size))) / one(x, x.size)
        ),
    },
    domains={"x": Domain(finite=True, normal=True)},
)


# Running sums.


def _doubling(x: Any) -> Any:
    """Hillis and Steele's scan."""
    step = 1
    while step < x.size:
        x = np.concatenate([x[:step], x[step:] + x[:-step]])
        step *= 2
    return x


def _block_scan(x: Any, size: int = 8) -> Any:
    parts, offset = [], one(x, 0)
    for start in range(0, x.size, size):
        part = np.array(list(itertools.accumulate(x[start : start + size])), x.dtype)
        parts.append(part + offset)
        offset = offset + part[-1]
    return np.concatenate(parts)


kind(
    "running sum",
    lambda x: jnp.cumsum(x),
    {
        "chain": lambda x: np.array(list(itertools.accumulate(x)), x.dtype),
        "doubling": _doubling,
        "blocks": _block_scan,
        "in a wider type": lambda x: np.cumsum(wide(x)).astype(x.dtype),
    },
    {
        "exclusive": lambda x: np.append(one(x, 0), np.cumsum(x)[:-1]),
        "restarts": lambda x: np.concatenate([np.cumsum(x[:16]), np.cumsum(x[16:])]),
        "block sums forgotten once": lambda x: np.concatenate([np.cumsum(x[:8]), np.cumsum(x[:24])[8:], x[24:]]),
        "from the other end": lambda x: np.cumsum(x[::-1])[::-1],
    },
)


def _recurrence(a: Any, x: Any) -> Any:
    states, state = [], one(x, 0)
    for factor, value in zip(a, x, strict=True):
        state = factor * state + value
        states.append(state)
    return np.array(states, x.dtype)


def _doubled_recurrence(a: Any, x: Any) -> Any:
    step = 1
    while step < x.size:
        x = np.concatenate([x[:step], x[step:] + a[step:] * x[:-step]])
        a = np.concatenate([a[:step], a[step:] * a[:-step]])
        step *= 2
    return x


kind(
    "linear recurrence",
    lambda a, x: jax.lax.scan(lambda h, each: (each[0] * h + each[1],) * 2, jnp.zeros((), x.dtype), (a, x))[1],
    {
        "step by step": _recurrence,
        "doubling": _doubled_recurrence,
        "in a wider type": lambda a, x: _recurrence(wide(a), wide(x)).astype(x.dtype),
    },
    {
        "input before": lambda a, x: _recurrence(a, np.roll(x, 1)),
        "factor before": lambda a, x: _recurrence(np.roll(a, 1), x),
        "restarts": lambda a, x: np.concatenate([_recurrence(a[:16], x[:16]), _recurrence(a[16:], x[16:])]),
    },
    domains={"a": Domain(least=-1, most=1), "x": FINITE},
)


# Norms and distances.


def _scaled_norm(x: Any) -> Any:
    top = abs(x).max()
    return top * np.sqrt(chain((x / top) * (x / top))) if 0 < top < np.inf else abs(chain(x))


kind(
    "norm",
    lambda x: jnp.sqrt(jnp.sum(x * x)),
    {
        "chain": lambda x: np.sqrt(chain(x * x)),
        "pairs": lambda x: np.sqrt(pairwise(x * x)),
        "scaled": _scaled_norm,
        "in a wider type": lambda x: np.sqrt(chain(wide(x) * wide(x))).astype(x.dtype),
    },
    {
        "of magnitudes": lambda x: chain(abs(x)),
        "largest": lambda x: abs(x).max(),
    },
    domains={"x": FINITE},
)
