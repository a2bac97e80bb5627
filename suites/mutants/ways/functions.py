"""Right and wrong exponentials, polynomials, interpolations and products."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.mutants.ways.kind import FINITE, SUMS, Way, chain, fma, half, kind, lanes, one, pairwise, wide

# Exponentials.


def _online_logsumexp(x: Any) -> Any:
    top, total = x[0], one(x, 1)
    for value in x[1:]:
        if value > top:
            total = total * np.exp(top - value) + one(x, 1)
            top = value
        else:
            total = total + np.exp(value - top)
    return top + np.log(total)


def _two_pass_logsumexp(x: Any, add: Way = chain) -> Any:
    top = x.max()
    return top + np.log(add(np.exp(x - top)))


kind(
    "logsumexp",
    lambda x: jax.nn.logsumexp(x),
    {
        "two passes": _two_pass_logsumexp,
        "two passes in pairs": lambda x: _two_pass_logsumexp(x, pairwise),
        "online": _online_logsumexp,
        "online from the other end": lambda x: _online_logsumexp(x[::-1]),
        "pair by pair": lambda x: x.dtype.type(_folded(np.logaddexp, x)),
    },
    {
        "unshifted": lambda x: np.log(chain(np.exp(x))),
        "maximum": lambda x: x.max(),
        "without the maximum": lambda x: np.log(chain(np.exp(x - x.max()))),
        "maximum twice": lambda x: x.max() + np.log1p(chain(np.exp(x - x.max()))),
    },
    domains={"x": FINITE},
)


def _folded(function: Way, x: Any) -> Any:
    total = x[0]
    for value in x[1:]:
        total = function(total, value)
    return total


kind(
    "sigmoid",
    lambda x: jax.nn.sigmoid(x),
    {
        "of minus x": lambda x: one(x, 1) / (one(x, 1) + np.exp(-x)),
        "by the sign": lambda x: np.where(
            x >= 0, one(x, 1) / (one(x, 1) + np.exp(-abs(x))), np.exp(-abs(x)) / (one(x, 1) + np.exp(-abs(x)))
        ).astype(x.dtype),
    },
    {
        "of x": lambda x: np.exp(x) / (one(x, 1) + np.exp(x)),
        "by a tangent": lambda x: one(x, 0.5) * np.tanh(x * one(x, 0.5)) + one(x, 0.5),
        "cut off at 8": lambda x: np.where(x > 8, 1, one(x, 1) / (one(x, 1) + np.exp(-x))).astype(x.dtype),
        "a rational one": lambda x: one(x, 0.5) + one(x, 0.5) * x / (one(x, 1) + abs(x)),
    },
)


# Polynomials.

COEFFICIENTS = (1.0, -0.5, 0.25, 3.0, -2.0, 0.125, 0.75, -0.0625)


def _horner(x: Any, coefficients: Any = COEFFICIENTS, fused: bool = False) -> Any:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = fma(total, x, np.full_like(x, coefficient)) if fused else total * x + one(x, coefficient)
    return total


def _powers(x: Any, coefficients: Any = COEFFICIENTS) -> Any:
    power, total = np.ones_like(x), np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        power = power * x
        total = total + one(x, coefficient) * power
    return total


def _estrin(x: Any) -> Any:
    c = [one(x, each) for each in COEFFICIENTS]
    two, four = x * x, (x * x) * (x * x)
    return (c[0] + c[1] * x + (c[2] + c[3] * x) * two) + (c[4] + c[5] * x + (c[6] + c[7] * x) * two) * four


_POLYNOMIALS = {
    "Horner": _horner,
    "fused Horner": lambda x: _horner(x, fused=True),
    "powers": _powers,
    "Estrin": _estrin,
    "powers from the highest": lambda x: chain(one(x, c) * x**k for k, c in reversed([*enumerate(COEFFICIENTS)])),
}
_WRONG_POLYNOMIALS = {
    "lower degree": lambda x: _horner(x, COEFFICIENTS[:-1]),
    "a sign": lambda x: _horner(x, (*COEFFICIENTS[:4], 2.0, *COEFFICIENTS[5:])),
    "a digit": lambda x: _horner(x, (*COEFFICIENTS[:5], 0.12501, *COEFFICIENTS[6:])),
    "a power": lambda x: _powers(x, COEFFICIENTS[:7]) + one(x, COEFFICIENTS[7]) * x**6,
}
kind(
    "polynomial by Horner",
    lambda x: _horner_jnp(x),
    _POLYNOMIALS,
    _WRONG_POLYNOMIALS,
    dtypes=("float32", "float64"),
    domains={"x": FINITE},
)


def _horner_jnp(x: Any) -> Any:
    total = jnp.full_like(x, COEFFICIENTS[-1])
    for coefficient in COEFFICIENTS[-2::-1]:
        total = total * x + coefficient
    return total


# Interpolation.

_LERPS = {
    "from a": lambda a, b, t: a + t * (b - a),
    "weighted": lambda a, b, t: (one(a, 1) - t) * a + t * b,
    "fused": lambda a, b, t: fma(t, b - a, a),
    "fused twice": lambda a, b, t: fma(t, b, fma(-t, a, a)),
}
_WRONG_LERPS = {
    "other way": lambda a, b, t: b + t * (a - b),
    "clamped": lambda a, b, t: a + np.clip(t, 0, 1).astype(a.dtype) * (b - a),
    "from b": lambda a, b, t: b - (one(a, 1) - t) * (b - a),
    "without the difference": lambda a, b, t: a + t * b,
    "weight in half precision": lambda a, b, t: a + half(t) * (b - a),
}
for _name, _reference in {
    "lerp from a": lambda a, b, t: a + t * (b - a),
    "lerp weighted": lambda a, b, t: (1 - t) * a + t * b,
}.items():
    kind(_name, _reference, _LERPS, _WRONG_LERPS, domains={"a": FINITE, "b": FINITE, "t": FINITE})


# Products.


def _dot_sum(add: Way) -> Way:
    return lambda x, y: add(list(x * y))


def _fused_dot(x: Any, y: Any) -> Any:
    total = one(x, 0)
    for a, b in zip(x, y, strict=True):
        total = fma(a, b, total)
    return np.asarray(total)


kind(
    "dot",
    lambda x, y: jnp.dot(x, y, precision="highest"),
    {
        **{name: _dot_sum(way) for name, way in SUMS.items()},
        "lanes": _dot_sum(lanes),
        "fused": _fused_dot,
        "in a wider type": lambda x, y: (wide(x) @ wide(y)).astype(x.dtype),
    },
    {
        "in half precision": lambda x, y: chain(half(x) * half(y)),
        "first four twice": lambda x, y: chain([*(x * y), *(x * y)[:4]]),
    },
    dtypes=("float32", "float64"),
)


def _grids(dtype: str, size: int, seed: int) -> Any:
    random, n = np.random.default_rng(seed), max(2, math.isqrt(size))
    return random.standard_normal((n, n + 2)).astype(dtype), random.standard_normal((n + 2, n)).astype(dtype)


kind(
    "matmul",
    lambda a, b: jnp.matmul(a, b, precision="highest"),
    {
        "outer products": lambda a, b: chain(np.outer(a[:, k], b[k]) for k in range(b.shape[0])),
        "outer products backwards": lambda a, b: chain(np.outer(a[:, k], b[k]) for k in reversed(range(b.shape[0]))),
        "blocks of three": lambda a, b: chain(a[:, k : k + 3] @ b[k : k + 3] for k in range(0, b.shape[0], 3)),
        "in a wider type": lambda a, b: (wide(a) @ wide(b)).astype(a.dtype),
    },
    {
        "last block missing": lambda a, b: a[:, :-2] @ b[:-2],
        "transposed": lambda a, b: (a @ b).T,
        "last column twice": lambda a, b: a @ b + np.outer(a[:, -1], b[-1]),
        "rounded operands": lambda a, b: half(a) @ half(b),
    },
    sample=_grids,
)


def _complex(real: Any, imaginary: Any) -> Any:
    return real + 1j * imaginary


kind(
    "complex product",
    lambda x, y: x * y,
    {
        "four products": lambda x, y: (
            x.real * y.real - x.imag * y.imag + np.complex64(1j) * (x.imag * y.real + x.real * y.imag)
        ).astype(x.dtype),
        "fused": lambda x, y: _complex(
            fma(x.real, y.real, -(x.imag * y.imag)), fma(x.real, y.imag, x.imag * y.real)
        ).astype(x.dtype),
    },
    {
        "a sign": lambda x, y: _complex(x.real * y.real + x.imag * y.imag, x.real * y.imag + x.imag * y.real).astype(
            x.dtype
        ),
        "conjugate": lambda x, y: x * np.conj(y),
        "cross term": lambda x, y: _complex(x.real * y.real - x.imag * y.imag, 2 * x.real * y.imag).astype(x.dtype),
    },
    dtypes=("complex64",),
)
