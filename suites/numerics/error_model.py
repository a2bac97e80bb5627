"""Holds true results with error bounds, for :mod:`suites.numerics.derived` and :mod:`suites.numerics.verdict`.

The error model
---------------
Let ``u`` be the unit roundoff of the output's dtype (2**-24 for float32, 2**-53 for float64). One rounded operation
obeys ``fl(a op b) = (a op b)(1 + d)`` with ``|d| <= u``. The error of ``k`` such operations in a row is a product of
``k`` such factors, and (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Lemma 3.1)::

    prod (1 + d_i)**(+-1) = 1 + theta_k,   |theta_k| <= gamma_k = k u / (1 - k u)    for k u < 1.

In a sum of products each term passes through its own product and at most ``k - 1`` additions, in any order (Higham,
section 4.2). So the error of the computed sum is at most ``gamma_k * S``, where ``S`` is the sum of absolute values.

That is the worst case: all roundings go in one direction. If the terms take many values, and few are lost beside the
sum, roundings have mean zero, and the error of k of them is below ``4 u sqrt(k) S``, except for one element in 1e10
(Higham and Mary, SIAM J. Sci. Comput. 41, 2019, Theorem 2.4). A sum of equal numbers, such as of 0.1, has the worst
case. A sum of whole numbers is not rounded if all partial sums fit the dtype (:mod:`suites.numerics.quanta`), so any
missing term is found, however long the sum is. No sum may have a larger error than a quarter of ``S``. A dtype that
would lose more is too narrow to add up so many terms in one chain, and a kernel must add in blocks or in a wider type.

A number below the smallest normal one may be flushed to zero: XLA's threads do so.

The error of a complex result is its distance in the complex plane; it gets a tolerance.

Truth has at least 11 more bits than the result. For float32 it is a float64. For float64 it is a ``np.longdouble``,
which has 64 bits of significand on x86-64 and more on other 64-bit Linux. Where ``np.longdouble`` is no wider than
float64, truth is as uncertain as the result.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from suites.numerics.arrays import Array

WIDE: dict[np.dtype[Any], type[np.inexact[Any]]] = {
    **dict.fromkeys(map(np.dtype, ("bfloat16", "float16", "float32")), np.float64),
    np.dtype("float64"): np.longdouble,
    np.dtype("complex64"): np.complex128,
    np.dtype("complex128"): np.clongdouble,
}
"""The type of the truth, by the dtype of the inputs."""


@functools.cache
def finfo(dtype: np.dtype[Any] | str) -> Any:
    """``np.finfo`` for every dtype of :data:`WIDE`: NumPy does not know bfloat16."""
    info: Any = jnp.finfo
    return info(dtype)


MOST = 0.25
"""The largest error of a sum, relative to the sum of the absolute values."""

DEVIATIONS = 4.0
"""How far roundings may add up by chance: at most one false alarm in 1e10 elements."""


def sum_error(sizes: Any, roundings: Any, unit: float, varied: Any = False) -> Any:
    """The error of a sum in any order.

    Args:
        sizes: ``S``, the sum of the absolute values.
        roundings: ``k``, a number or an array.
        unit: The unit roundoff u.
        varied: True where the terms take many values, so that their roundings do not all go one way.
    """
    with np.errstate(all="ignore"):
        sizes, ku = np.asarray(sizes), np.asarray(roundings) * unit
        worst = np.where(ku < 1, ku / (1 - ku), np.inf)
        chance = np.where(varied, DEVIATIONS * unit * np.sqrt(roundings), np.inf)
        return np.where(sizes > 0, np.minimum(np.minimum(worst, chance), MOST) * sizes, 0)


@dataclass(frozen=True)
class Expected:
    """The true value of one output, with its error bound.

    Attributes:
        value: Truth, in a wide type, or in the output's dtype if every bit counts.
        dtype: Dtype of the output.
        margin: Accepted absolute error of each element; None if every bit counts. Integers and booleans have a margin
            if they depend on a rounded number, for instance on whether it is above a threshold.
        signed_zero: Whether a zero must have the sign of the true zero; for all elements, or for each.
        overflows: True where some order of the operations overflows, so that infinity and NaN are right as well; None
            if nowhere.
    """

    value: Array
    dtype: np.dtype[Any]
    margin: Array | None
    signed_zero: bool | Array = False
    overflows: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output."""
        return tuple(self.value.shape)

    def at(self, indices: Array) -> Expected:
        """Returns the true values of some elements, by their indices in the flat output."""
        flat: dict[str, Any] = {
            name: np.broadcast_to(array, self.shape).reshape(-1)[indices]
            for name in ("value", "margin", "signed_zero", "overflows")
            if (array := getattr(self, name)) is not None
        }
        return replace(self, **flat)


@dataclass(frozen=True)
class Truth:
    """The true values of all outputs, with their error bounds.

    Attributes:
        outputs: One entry per output.
    """

    outputs: tuple[Expected, ...]


def exact(value: Array, signed_zero: bool = False) -> Expected:
    """Declares a result that must equal the value exactly: integers, booleans and copies. A NaN may have any bits."""
    return Expected(value, value.dtype, None, signed_zero)


def significand_bits(dtype: np.dtype[Any] | str) -> int:
    """The bits of a significand, with the leading one: 24 for float32, 53 for float64, 8 for bfloat16."""
    return 1 - int(np.log2(float(finfo(dtype).eps)))
