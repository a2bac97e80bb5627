"""Right and wrong ways to compute the same, in plain NumPy: right ones must pass all drawn inputs, wrong ones must not.

Each :class:`Kind` has a reference and functions of NumPy arrays. Every right function computes in the tested dtype, or
in a wider one, by steps that a careful author could choose. Every wrong one has a mistake that an author could make,
within the declared values: all of the dtype, or of the domain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites import Domain

Way = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One function with ways to compute it.

    Attributes:
        name: The operation that it computes.
        reference: The reference, with ``jax.numpy``.
        right: Right ways, by name.
        wrong: Wrong ways, by name.
        dtypes: The tested dtypes.
        sample: The operator's ``sample``; None for the default.
        domains: The operator's ``domains``.
        tolerance: The operator's ``tolerance``.
    """

    name: str
    reference: Way
    right: dict[str, Way]
    wrong: dict[str, Way]
    dtypes: tuple[str, ...] = ("float32",)
    sample: Callable[[str, int, int], Any] | None = None
    domains: dict[str, Domain] = field(default_factory=dict)
    tolerance: float | None = None


KINDS: list[Kind] = []
FINITE = Domain(finite=True)


def kind(name: str, reference: Way, right: dict[str, Way], wrong: dict[str, Way], **more: Any) -> None:
    KINDS.append(Kind(name=name, reference=reference, right=right, wrong=wrong, **more))


# Tools of the ways.


def one(x: Any, value: float) -> Any:
    """A number in the dtype of an array."""
    return x.dtype.type(value)


def half(x: Any) -> Any:
    """The array with about half of its bits."""
    narrow = np.float16 if x.dtype == np.float32 else np.float32
    return x.astype(narrow).astype(x.dtype)


def wide(x: Any) -> Any:
    return x.astype(np.float64 if x.dtype != np.float64 else np.longdouble)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    return (wide(np.asarray(a)) * wide(np.asarray(b)) + wide(np.asarray(c))).astype(np.asarray(c).dtype)


def chain(terms: Any) -> Any:
    """The sum of an iterable of arrays or numbers, one after the other."""
    terms = iter(terms)
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def pairwise(terms: Any) -> Any:
    terms = list(terms)
    while len(terms) > 1:
        terms = [chain(terms[i : i + 2]) for i in range(0, len(terms), 2)]
    return terms[0]


def blocked(terms: Any, size: int = 8) -> Any:
    terms = list(terms)
    return chain(chain(terms[i : i + size]) for i in range(0, len(terms), size))


def lanes(terms: Any, count: int = 4) -> Any:
    terms = list(terms)
    return chain(chain(terms[i::count]) for i in range(min(count, len(terms))))


def kahan(terms: Any) -> Any:
    """Neumaier's compensated sum."""
    terms = list(terms)
    total = rest = terms[0] * 0
    for term in terms:
        raised = total + term
        rest = rest + ((total - raised) + term if abs(total) >= abs(term) else (term - raised) + total)
        total = raised
    return total + rest if np.isfinite(total) and np.isfinite(rest) else chain(terms)


SUMS = {"chain": chain, "backwards": lambda t: chain(list(t)[::-1]), "pairwise": pairwise, "blocked": blocked}


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
    "chain of differences",
    lambda a, b, c, d: a - b + c - d,
    {
        "two sums": lambda a, b, c, d: (a + c) - (b + d),
        "two differences": lambda a, b, c, d: (a - d) + (c - b),
        "from the other end": lambda a, b, c, d: a - (b - (c - d)),
    },
    {
        "a sign": lambda a, b, c, d: a - b + c + d,
        "a bracket": lambda a, b, c, d: a - (b + c) - d,
    },
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


def _shifted(x: Any) -> Any:
    moved = x - x[0]
    n = one(x, x.size)
    mean = chain(moved) / n
    return chain(moved * moved) / n - mean * mean


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

kind(
    "variance of shifted numbers",
    lambda x: jnp.mean((x - x[0]) ** 2) - jnp.mean(x - x[0]) ** 2,
    {"two passes": _two_pass, "shifted": _shifted, "by Welford": _welford},
    {"without the second term": lambda x: chain((x - x[0]) * (x - x[0])) / one(x, x.size)},
    domains={"x": Domain(finite=True, normal=True)},
)

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


def _online_softmax(x: Any) -> Any:
    top, total = x[0], one(x, 1)
    for value in x[1:]:
        raised = max(top, value)
        total = total * np.exp(top - raised) + np.exp(value - raised)
        top = raised
    return np.exp(x - top) / total


kind(
    "softmax",
    lambda x: jax.nn.softmax(x),
    {
        "two passes": lambda x: np.exp(x - x.max()) / chain(np.exp(x - x.max())),
        "by a reciprocal": lambda x: np.exp(x - x.max()) * (one(x, 1) / pairwise(np.exp(x - x.max()))),
        "online": _online_softmax,
        "from the other end": lambda x: np.exp(x - x.max()) / chain(np.exp(x - x.max())[::-1]),
    },
    {
        "unshifted": lambda x: np.exp(x) / chain(np.exp(x)),
        "one missing in the sum": lambda x: np.exp(x - x.max()) / chain(np.exp(x - x.max())[:-1]),
        "of base two": lambda x: np.exp2(x - x.max()) / chain(np.exp2(x - x.max())),
        "largest one": lambda x: (x == x.max()).astype(x.dtype) / (x == x.max()).sum().astype(x.dtype),
        "shifted by the first": lambda x: np.exp(x - x[0]) / chain(np.exp(x - x[0])),
    },
    domains={"x": FINITE},
)

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

kind(
    "softplus",
    lambda x: jnp.logaddexp(x, 0),
    {
        "stable": lambda x: np.maximum(x, one(x, 0)) + np.log1p(np.exp(-abs(x))),
        "as a sum of logarithms": lambda x: np.logaddexp(x, one(x, 0)),
    },
    {
        "unstable": lambda x: np.log(one(x, 1) + np.exp(x)),
        "cut off at 10": lambda x: np.where(x > 10, x, np.log1p(np.exp(x))).astype(x.dtype),
        "rectifier": lambda x: np.maximum(x, one(x, 0)),
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
kind(
    "polynomial by powers",
    lambda x: sum(c * x**k for k, c in enumerate(COEFFICIENTS)),
    _POLYNOMIALS,
    _WRONG_POLYNOMIALS,
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


def _grid(dtype: str, size: int, seed: int) -> Any:
    random, n = np.random.default_rng(seed), max(2, math.isqrt(size))
    return random.standard_normal((n, n + 1)).astype(dtype), random.standard_normal(n + 1).astype(dtype)


kind(
    "matvec",
    lambda a, v: jnp.matmul(a, v, precision="highest"),
    {
        "row by row": lambda a, v: np.array([chain(row * v) for row in a]),
        "rows from the other end": lambda a, v: np.array([chain((row * v)[::-1]) for row in a]),
        "column by column": lambda a, v: chain(a[:, j] * v[j] for j in range(v.size)),
        "pairs of columns": lambda a, v: pairwise([a[:, j] * v[j] for j in range(v.size)]),
        "BLAS": lambda a, v: a @ v,
    },
    {
        "last column dropped": lambda a, v: a[:, :-1] @ v[:-1],
        "rows shifted": lambda a, v: np.roll(a @ v, 1),
        "last row is zero": lambda a, v: np.append((a @ v)[:-1], one(a, 0)),
    },
    sample=_grid,
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


kind(
    "determinant",
    lambda a, b, c, d: a * d - b * c,
    {
        "fused": lambda a, b, c, d: fma(a, d, -(b * c)),
        "fused the other way": lambda a, b, c, d: fma(-b, c, a * d),
        "turned": lambda a, b, c, d: -(b * c - a * d),
    },
    {
        "a sign": lambda a, b, c, d: a * d + b * c,
        "columns": lambda a, b, c, d: a * b - c * d,
    },
    domains=dict.fromkeys("abcd", FINITE),
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


# Butterflies and Fourier transforms.


def _walsh(x: Any, strides: Any, module: Any = np) -> Any:
    for stride in strides:
        pairs = x.reshape(-1, 2, stride)
        x = module.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
    return x


def _power_of_two(dtype: str, size: int, seed: int) -> Any:
    return (np.random.default_rng(seed).standard_normal(1 << max(1, size.bit_length() - 1)).astype(dtype),)


def _hadamard(n: int) -> Any:
    return np.array([[(-1.0) ** (i & j).bit_count() for j in range(n)] for i in range(n)])


def _strides(n: int) -> list[int]:
    return [1 << k for k in range(n.bit_length() - 1)]


kind(
    "Walsh transform",
    lambda x: _walsh(x, _strides(x.size), jnp),
    {
        "short strides first": lambda x: _walsh(x, _strides(x.size)),
        "long strides first": lambda x: _walsh(x, _strides(x.size)[::-1]),
        "as a matrix": lambda x: np.array([chain(row.astype(x.dtype) * x) for row in _hadamard(x.size)]),
        "as a matrix in a wider type": lambda x: (_hadamard(x.size) @ wide(x)).astype(x.dtype),
    },
    {
        "a stage missing": lambda x: _walsh(x, _strides(x.size)[:-1]),
        "a stage twice": lambda x: _walsh(x, [*_strides(x.size), 1]),
        "last one unsigned": lambda x: np.append(_walsh(x, _strides(x.size))[:-1], chain(x)),
    },
    sample=_power_of_two,
    domains={"x": FINITE},
)


def _fourier(x: Any, sign: float = -1.0) -> Any:
    """By decimation in time."""
    if x.size == 1:
        return x
    even, odd = _fourier(x[::2], sign), _fourier(x[1::2], sign)
    turned = odd * np.exp(sign * 2j * np.pi * np.arange(odd.size) / x.size).astype(x.dtype)
    return np.concatenate([even + turned, even - turned])


def _fourier_in_frequency(x: Any) -> Any:
    if x.size == 1:
        return x
    n = x.size // 2
    turned = (x[:n] - x[n:]) * np.exp(-2j * np.pi * np.arange(n) / x.size).astype(x.dtype)
    return np.stack([_fourier_in_frequency(x[:n] + x[n:]), _fourier_in_frequency(turned)], 1).reshape(-1)


def _complex_power_of_two(dtype: str, size: int, seed: int) -> Any:
    random, n = np.random.default_rng(seed), 1 << max(1, size.bit_length() - 1)
    return ((random.standard_normal(n) + 1j * random.standard_normal(n)).astype(dtype),)


def _matrix(n: int) -> Any:
    return np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)


kind(
    "Fourier transform",
    jnp.fft.fft,
    {
        "in time": _fourier,
        "in frequency": _fourier_in_frequency,
        "as a matrix": lambda x: (_matrix(x.size).astype(x.dtype) * x).sum(1, dtype=x.dtype),
        "by NumPy": lambda x: np.fft.fft(x).astype(x.dtype),
    },
    {
        "backwards": lambda x: _fourier(x, 1.0),
        "scaled": lambda x: (_fourier(x) / x.size).astype(x.dtype),
        "without factors": lambda x: _walsh(x, _strides(x.size)),
        "in half precision": lambda x: _fourier((half(x.real) + 1j * half(x.imag)).astype(x.dtype)),
    },
    dtypes=("complex64",),
    sample=_complex_power_of_two,
)

# Neighbours.


def _image(dtype: str, size: int, seed: int) -> Any:
    n = max(4, math.isqrt(size))
    return (np.random.default_rng(seed).standard_normal((n, n + 1)).astype(dtype),)


_NINE = [*itertools.product((-1, 0, 1), repeat=2)]

kind(
    "box blur",
    lambda u: sum(jnp.roll(u, move, (0, 1)) for move in _NINE) / 9,
    {
        "from the other end": lambda u: chain(np.roll(u, move, (0, 1)) for move in _NINE[::-1]) / one(u, 9),
        "rows then columns": lambda u: _three(_three(u, 0), 1) / one(u, 9),
        "thirds": lambda u: _three(_three(u, 0) / one(u, 3), 1) / one(u, 3),
        "weighted": lambda u: pairwise(np.roll(u, move, (0, 1)) * one(u, 1 / 9) for move in _NINE),
    },
    {
        "a corner missing": lambda u: chain(np.roll(u, move, (0, 1)) for move in _NINE[:-1]) / one(u, 9),
        "a corner twice": lambda u: chain(np.roll(u, move, (0, 1)) for move in [*_NINE[:-1], _NINE[0]]) / one(u, 9),
        "not around the edge": lambda u: _padded_blur(u),
        "divided by eight": lambda u: chain(np.roll(u, move, (0, 1)) for move in _NINE) / one(u, 8),
    },
    sample=_image,
)


def _three(u: Any, axis: int) -> Any:
    return np.roll(u, 1, axis) + u + np.roll(u, -1, axis)


def _padded_blur(u: Any) -> Any:
    padded = np.pad(u, 1)
    n, m = u.shape
    return chain(padded[1 + i : 1 + i + n, 1 + j : 1 + j + m] for i, j in _NINE) / one(u, 9)


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

kind(
    "rms norm",
    lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x) + 1e-6) * w,
    {
        "divided": lambda x, w: x / np.sqrt(chain(x * x) / one(x, x.size) + one(x, 1e-6)) * w,
        "weights first": lambda x, w: (x * w) * (one(x, 1) / np.sqrt(pairwise(x * x) / one(x, x.size) + one(x, 1e-6))),
        "scale first": lambda x, w: x * (w / np.sqrt(blocked(x * x) * one(x, 1 / x.size) + one(x, 1e-6))),
    },
    {
        "without epsilon": lambda x, w: x / np.sqrt(chain(x * x) / one(x, x.size)) * w,
        "epsilon outside": lambda x, w: x / (np.sqrt(chain(x * x) / one(x, x.size)) + one(x, 1e-6)) * w,
        "of the sum": lambda x, w: x / np.sqrt(chain(x * x) + one(x, 1e-6)) * w,
        "without weights": lambda x, w: x / np.sqrt(chain(x * x) / one(x, x.size) + one(x, 1e-6)),
        "mean removed": lambda x, w: (x - x.mean()) / np.sqrt(chain(x * x) / one(x, x.size) + one(x, 1e-6)) * w,
    },
    domains={"x": FINITE, "w": FINITE},
)


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
    "count above a half",
    lambda x: jnp.sum(x > 0.5, dtype=jnp.int32),
    {
        "one by one": lambda x: np.int32(sum(int(value > 0.5) for value in x)),
        "by halves": lambda x: np.int32((x[::2] > 0.5).sum() + (x[1::2] > 0.5).sum()),
    },
    {
        "with a half": lambda x: np.int32((x >= 0.5).sum()),
        "not below": lambda x: np.int32((~(x <= 0.5)).sum()),
        "modulo 32": lambda x: np.int32((x > 0.5).sum() % 32),
        "of magnitudes": lambda x: np.int32((abs(x) > 0.5).sum()),
    },
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
    "round half to even",
    lambda x: jnp.round(x),
    {"by NumPy": np.rint, "by the magnitude": lambda x: np.copysign(np.rint(abs(x)), x)},
    {
        "half up": lambda x: np.where(abs(x) < 1e6, np.floor(x + one(x, 0.5)), x).astype(x.dtype),
        "half away": lambda x: np.where(abs(x) < 1e6, np.copysign(np.floor(abs(x) + one(x, 0.5)), x), x).astype(
            x.dtype
        ),
        "towards zero": np.trunc,
        "through an integer": lambda x: np.rint(x).astype(np.int32).astype(x.dtype),
    },
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
