"""Gives the accuracy and the slope of each function of one number, for :mod:`suites.numerics.derived.reference`.

The error of a function, in units of u, is a little more than the larger of two figures. NVIDIA documents one for CUDA
(C++ Programming Guide, "Mathematical Functions"; 1 ulp is 2 u; XLA divides with ``div.full.f32``, 2 ulp by the PTX
ISA). The other was measured with XLA's functions on a CPU, in all dtypes, with 400 000 arguments in each of several
ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.derived.estimate import Estimate, by_jax, rounded, unknown

DIVISION = 4.0
ROOT = 4.0
POWER = 16.0
"""The 8 ulp of older releases of CUDA."""
ATAN2 = 6.0


@dataclass(frozen=True)
class Function:
    """A function of one number.

    Attributes:
        value: The function, of arrays of a wide type.
        change: Takes an argument v, the bound b of its error, and the value f(v). Returns a bound of
            ``|f(v + d) - f(v)|`` for all ``|d| <= b``. It is infinite where b reaches a pole of the function.
        ulps: The error of the function itself, in units of u; a function of the argument if it depends on that.
        poles: Whether an infinite change means that the result is unknown. Otherwise it means an overflow.
        scales: Whether a kernel may divide the argument by a number first, and multiply the result afterwards.
        ulps_in_double: The ``ulps`` of float64; None if they are the same.
    """

    value: Callable[[Any], Any]
    change: Callable[[Any, Any, Any], Any]
    ulps: float | Callable[[Any], Any]
    poles: bool = False
    scales: bool = False
    ulps_in_double: float | None = None

    def __call__(self, operand: Estimate, dtype: np.dtype[Any]) -> Estimate:
        """Returns the estimate of the result."""
        value = np.asarray(self.value(operand.value))
        ulps = self.ulps(operand.value) if callable(self.ulps) else self.ulps
        ulps = self.ulps_in_double if dtype == np.float64 and self.ulps_in_double else ulps
        bound = operand.loose if self.scales else operand.error
        if bound is None:
            return rounded(value, np.zeros((), value.real.dtype), dtype, ulps)
        # At a pole the slope is infinite, but an exact argument does not change.
        change = np.where(bound > 0, self.change(operand.value, bound, value), 0)
        lost = unknown(operand)
        if self.poles:
            lost |= np.isinf(change) & np.isfinite(operand.value)
        return rounded(value, change, dtype, ulps, unknown=lost)


def nearest(v: Any, b: Any) -> Any:
    """The smallest magnitude within b of v."""
    return np.maximum(np.abs(v) - b, 0)


def _exp_change(v: Any, b: Any, f: Any) -> Any:
    """``exp(v) expm1(b)``; for a large b, ``exp(v)`` may be zero and ``expm1(b)`` infinite."""
    return np.where(b < 1, f * np.expm1(b), np.exp(v + b))


def _logistic(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


def _sqrt_change(v: Any, b: Any, f: Any) -> Any:
    """``sqrt(v) - sqrt(v - b)`` without cancellation. If v is not negative, the kernel's argument is not either."""
    below = np.where(v >= b, b / (f + np.sqrt(np.maximum(v - b, 0))), np.sqrt(np.abs(v) + b))
    return np.where((v < 0) & (v + b >= 0), np.inf, below)


def _tan_change(v: Any, b: Any, f: Any) -> Any:
    t = np.tan(b)
    return np.where(b < 1.5, t * (1 + f * f) / np.maximum(1 - np.abs(f) * t, 0), np.inf)


def _erf_change(v: Any, b: Any, f: Any) -> Any:
    return b * (2 / np.sqrt(np.pi)) * np.exp(-(nearest(v, b) ** 2))


def _in_double(primitive: Any) -> Callable[[Array], Array]:
    """Returns a function that NumPy does not have, computed by XLA with an error of a few units of float64."""

    def value(v: Array) -> Array:
        return by_jax(primitive, [v.astype(np.float64)], {})[0].astype(v.dtype)

    return value


def _hypotenuse_leg(v: Any, b: Any) -> Any:
    """``sqrt(1 - x**2)`` at the largest magnitude within b of v."""
    end = np.abs(v) + b
    return np.sqrt(np.maximum((1 - end) * (1 + end), 0))


FUNCTIONS: dict[str, Function] = {
    "exp": Function(np.exp, _exp_change, 4),
    # XLA computes exp(x log 2), and rounds the product.
    "exp2": Function(
        np.exp2, lambda v, b, f: _exp_change(v * np.log(2), b * np.log(2), f), lambda v: 4 + 1.4 * np.abs(v)
    ),
    "expm1": Function(np.expm1, lambda v, b, f: _exp_change(v, b, f + 1), 8),
    "log": Function(np.log, lambda v, b, f: b / nearest(v, b), 4, poles=True),
    # XLA's log1p of float64 was found to be off by 240 units of u, and its atanh by 146.
    "log1p": Function(np.log1p, lambda v, b, f: b / nearest(1 + v, b), 4, poles=True, ulps_in_double=256),
    "atanh": Function(np.arctanh, lambda v, b, f: b / _hypotenuse_leg(v, b) ** 2, 6, poles=True, ulps_in_double=256),
    "sqrt": Function(np.sqrt, _sqrt_change, ROOT, poles=True, scales=True),
    "rsqrt": Function(
        lambda v: 1 / np.sqrt(v), lambda v, b, f: b / 2 * nearest(v, b) ** -1.5, 4, poles=True, scales=True
    ),
    "cbrt": Function(np.cbrt, lambda v, b, f: np.minimum(b / (3 * np.cbrt(nearest(v, b)) ** 2), 1.6 * np.cbrt(b)), 6),
    "sin": Function(np.sin, lambda v, b, f: np.minimum(np.abs(np.cos(v)) * b + b * b / 2, 2), 4),
    "cos": Function(np.cos, lambda v, b, f: np.minimum(np.abs(np.sin(v)) * b + b * b / 2, 2), 4),
    "tan": Function(np.tan, _tan_change, 8, poles=True),
    "asin": Function(np.arcsin, lambda v, b, f: b / _hypotenuse_leg(v, b), 6, poles=True),
    "acos": Function(np.arccos, lambda v, b, f: b / _hypotenuse_leg(v, b), 6, poles=True),
    "atan": Function(np.arctan, lambda v, b, f: b / (1 + nearest(v, b) ** 2), 4),
    # XLA adds up exp(x - log 2) and exp(-x - log 2), and rounds these arguments.
    "sinh": Function(np.sinh, lambda v, b, f: b * np.cosh(np.abs(v) + b), lambda v: 8 + np.abs(v)),
    "cosh": Function(np.cosh, lambda v, b, f: b * np.sinh(np.abs(v) + b), lambda v: 8 + np.abs(v)),
    "tanh": Function(np.tanh, lambda v, b, f: b / np.cosh(nearest(v, b)) ** 2, 8),
    "asinh": Function(np.arcsinh, lambda v, b, f: b / np.sqrt(1 + nearest(v, b) ** 2), 8),
    "acosh": Function(np.arccosh, lambda v, b, f: b / np.sqrt(np.maximum((v - b) ** 2 - 1, 0)), 10, poles=True),
    # The roundings of 1 / (1 + exp(-x)), see suites.ops.sigmoid.
    "logistic": Function(_logistic, lambda v, b, f: b / (4 * np.cosh(nearest(v, b) / 2) ** 2), 10),
    # The float64 figure includes the error of the truth, which is computed in float64 too.
    "erf": Function(_in_double(jax.lax.erf_p), _erf_change, 10, ulps_in_double=20),
    # The error of exp(-x**2) grows with the square. Beyond 30 the result is zero in every dtype.
    "erfc": Function(_in_double(jax.lax.erfc_p), _erf_change, lambda v: 24 + np.minimum(v * v, 900)),
}
