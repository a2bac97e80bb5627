"""States true results with error bounds, for authors of operators and for :mod:`suites.numerics.verdict`.

The error model
---------------
Let ``u`` be the unit roundoff of the output's dtype (2**-24 for float32, 2**-53 for float64). One rounded operation
obeys ``fl(a op b) = (a op b)(1 + d)`` with ``|d| <= u``. The error of ``k`` such operations in a row is a product of
``k`` such factors, and (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Lemma 3.1)::

    prod (1 + d_i)**(+-1) = 1 + theta_k,   |theta_k| <= gamma_k = k u / (1 - k u)    for k u < 1.

In a sum of products each term passes through its own product and at most ``k - 1`` additions, in any order (Higham,
section 4.2). So the error of the computed sum is at most ``gamma_k * S``, where ``S`` is the sum of absolute values.
``k`` is the longest chain of roundings, not the number of terms: a sum of n terms in blocks of b terms has
``k = b + n/b``. An operator declares the longest chain that its kernels may have, see
:func:`suites.blocked_terms`.

That is the worst case. A second bound is smaller for long sums: ``4 u sqrt(k) T``, where ``T`` says how large the
partial sums are (:mod:`suites.numerics.partial_sums` has the theorem, its assumptions and the 4). ``T`` is about as
large as the result or as the root of the sum of squares, whichever is larger, and ``S`` of terms with both signs is
``sqrt(k)`` times as large. A sum of whole numbers that all fit is not rounded at all
(:mod:`suites.numerics.quanta`).

A result is accepted when ``|got - truth| <= C u |truth| + min(gamma_k S, 4 u sqrt(k) T) + f * tiny``. ``C`` is the
limit for elementwise functions; a correctly rounded result has C = 1. ``tiny`` is the smallest normal number. It allows
for ``f`` operands or results that are flushed to zero: XLA's threads flush subnormal numbers. No sum is granted more
than a quarter of ``S`` or ``T``: a type that would lose more is too narrow to add up so many terms in one chain, and a
kernel must add in blocks or in a wider type.

A complex result is off by at most the margin in the complex plane. The model holds with ``|.|`` for the modulus: an
addition has ``C = 1``, a product ``C = 2 sqrt(2)``, and a quotient by the usual formula ``4 sqrt(2)`` (Higham, section
3.6).

Truth has at least 11 more bits than the result. For float32 it is a float64. For float64 it is a ``np.longdouble``,
which has 64 bits of significand on x86-64 and more on other 64-bit Linux. Where ``np.longdouble`` is no wider than
float64, truth is as uncertain as the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.partial_sums import MOST, probable_factor
from suites.numerics.quanta import nothing_rounded

WIDE: dict[str, type[np.inexact[Any]]] = {
    "bfloat16": np.float64,
    "float16": np.float64,
    "float32": np.float64,
    "float64": np.longdouble,
    "complex64": np.complex128,
    "complex128": np.clongdouble,
}
"""The type that truth is computed in, by the dtype of the inputs."""


def wide(array: Array) -> Array:
    """The array in the type that truth is computed in. It is already rounded to its own dtype."""
    return array.astype(WIDE[array.dtype.name])


def finfo(dtype: np.dtype[Any] | str) -> Any:
    """``np.finfo`` for every dtype of :data:`WIDE`: NumPy does not know bfloat16."""
    info: Any = jnp.finfo
    return info(dtype)


def gamma(terms: int, dtype: np.dtype[Any] | str) -> float:
    """The relative error bound ``k u / (1 - k u)`` of a chain of ``terms`` roundings; inf if ``k u >= 1``."""
    ku = terms * float(finfo(dtype).eps) / 2
    return ku / (1 - ku) if ku < 1 else float("inf")


def sum_error(sizes: Any, partial: Any, roundings: Any, unit: float) -> Any:
    """The error of a sum: the smaller one of the worst case and of the probabilistic bound of the model above.

    Args:
        sizes: ``S``, the sum of the absolute values.
        partial: ``T``, how large partial sums are; None or infinite if that is unknown.
        roundings: ``k``, a number or an array.
        unit: The unit roundoff u.
    """
    with np.errstate(all="ignore"):
        sizes, ku = np.asarray(sizes), np.asarray(roundings) * unit
        error = np.where(sizes > 0, np.minimum(np.where(ku < 1, ku / (1 - ku), np.inf), MOST) * sizes, 0)
        if partial is None:
            return error
        return np.fmin(error, probable_factor(roundings, unit) * np.asarray(partial))


@dataclass(frozen=True)
class Expected:
    """The true value of one output, with its error bound.

    Attributes:
        value: Truth, in a wide type, or in the output's dtype if every bit counts.
        dtype: Dtype of the output.
        margin: Accepted absolute error of each element; None if every bit counts. Integers and booleans have a margin
            if they depend on a rounded number, for instance on whether it is above a threshold.
        signed_zero: Whether a zero must have the sign of the true zero; for all elements, or for each.
    """

    value: Array
    dtype: np.dtype[Any]
    margin: Array | None
    signed_zero: bool | Array = False


@dataclass(frozen=True)
class Truth:
    """The true values of all outputs, with their error bounds.

    Attributes:
        outputs: One entry per output.
        alternative: The other answer of a discontinuous operator, for the elements that are ``undecided``.
        undecided: True where truth is so near to the discontinuity that both answers are right. An element is accepted
            if all outputs agree with one of the two. All outputs must have the shape of this mask.
    """

    outputs: tuple[Expected, ...]
    alternative: tuple[Expected, ...] = ()
    undecided: Array | None = None


def exact(value: Array, signed_zero: bool = False) -> Expected:
    """A result that must equal the value exactly: integers, booleans and copies. A NaN may have any bits."""
    return Expected(value, value.dtype, None, signed_zero)


def bounded(
    value: Array,
    dtype: np.dtype[Any] | str,
    *,
    ulps: float = 0.0,
    condition: Array | float = 0.0,
    terms: int | Array = 0,
    flushed: float | Array = 1.0,
    signed_zero: bool = False,
    partial: Array | float | None = None,
    quantum: Array | float = 0.0,
) -> Expected:
    """A rounded result, with the error bound of the model above.

    Args:
        value: Truth in a wide type.
        dtype: Dtype of the output.
        ulps: ``C`` of the error model, in units of u: 1 is half a unit in the last place, a correctly rounded result.
        condition: ``S`` of the error model.
        terms: ``k`` of the error model, for all elements or for each.
        flushed: ``f`` of the error model: how many operands and results may be flushed to zero.
        signed_zero: Whether a zero must have the sign of the true zero.
        partial: ``T`` of the error model, from :func:`suites.partial_sums`; None for the worst case alone.
        quantum: For a result that takes only additions and multiplications, a power of two that divides all terms, from
            :func:`suites.quantum`. Where ``condition`` shows that nothing is rounded, the result must then be exact.

    Raises:
        ValueError: A condition is negative.
    """
    if np.any(np.asarray(condition) < 0):
        raise ValueError("bounded got a negative condition, expected the sum of the absolute values of all terms")
    info = finfo(dtype)
    with np.errstate(all="ignore"):
        # NaN and infinities have no margin: the judge compares their places and signs.
        rounded = np.where(np.isfinite(value), ulps * float(info.eps) / 2 * np.abs(value), 0)
        accumulated = sum_error(condition, partial, terms, float(info.eps) / 2)
        margin = rounded + np.where(np.isfinite(condition), accumulated, 0) + flushed * float(info.tiny)
        if np.any(quantum):
            # A truth that was rounded itself is not exact.
            whole = nothing_rounded(condition, quantum, significand_bits(dtype), float(info.tiny))
            margin = np.where(whole & (np.abs(value) <= condition), 0, margin)
    return Expected(value, np.dtype(dtype), np.asarray(margin), signed_zero)


def significand_bits(dtype: np.dtype[Any] | str) -> int:
    """The bits of a significand, with the leading one: 24 for float32, 53 for float64, 8 for bfloat16."""
    return 1 - int(np.log2(float(finfo(dtype).eps)))
