"""Gives the accuracy and the slope of each function of one number, for :mod:`suites.truth.derived.reference`.

The units of u that a function may be off are the larger of two figures, with some room: what NVIDIA documents of CUDA
(C++ Programming Guide, "Mathematical Functions"; 1 ulp is 2 u; XLA divides with ``div.full.f32``, 2 ulp by the PTX ISA)
and what was measured of XLA's functions on a CPU, in all dtypes, with 400 000 arguments of each of several ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.inputs.arrays import Array
from suites.truth.derived.estimate import Estimate, by_jax, rounded, unknown

DIVISION = 4.0
ROOT = 4.0
POWER = 16.0
"""Older releases of CUDA are off by 8 ulp."""
ATAN2 = 6.0


@dataclass(frozen=True)
class Function:
    """A function of one number.

    Attributes:
        value: The function, of arrays of a wide type.
        change: From an argument v, the bound b of its error and the value f: a bound of ``|f(v + d) - f(v)|`` for all
            ``|d| <= b``. Where b reaches a pole of the function, it is infinite.
        ulps: What it may be off, in units of u; a function of the argument where it depends on that.
        poles: Whether an infinite change means that nothing is known; else it is an overflow.
    """

    value: Callable[[Any], Any]
    change: Callable[[Any, Any, Any], Any]
    ulps: float | Callable[[Any], Any]
    poles: bool = False

    def __call__(self, operand: Estimate, dtype: np.dtype[Any]) -> Estimate:
        """The estimate of the result."""
        value = np.asarray(self.value(operand.value))
        ulps = self.ulps(operand.value) if callable(self.ulps) else self.ulps
        if operand.error is None:
            return rounded(value, np.zeros((), value.dtype), dtype, ulps)
        bound = operand.error
        # At a pole the slope is infinite, but what is exact does not move.
        change = np.where(bound > 0, self.change(operand.value, bound, value), 0)
        lost = unknown(operand)
        if self.poles:
            lost |= np.isinf(change) & np.isfinite(operand.value)
        return rounded(value, change, dtype, ulps, unknown=lost)


def nearest(v: Any, b: Any) -> Any:
    """The smallest magnitude within b of v."""
    return np.maximum(np.abs(v) - b, 0)


def _exp_change(v: Any, b: Any, f: Any) -> Any:
    """Where b is large, ``exp(v)`` may be zero and ``expm1(b)`` infinite."""
    return np.where(b < 1, f * np.expm1(b), np.exp(v + b))


def _logistic(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


def _sqrt_change(v: Any, b: Any, f: Any) -> Any:
    """``sqrt(v) - sqrt(v - b)`` without cancellation; what is not negative is taken not to be in a kernel either."""
    below = np.where(v >= b, b / (f + np.sqrt(np.maximum(v - b, 0))), np.sqrt(np.abs(v) + b))
    return np.where((v < 0) & (v + b >= 0), np.inf, below)


def _tan_change(v: Any, b: Any, f: Any) -> Any:
    t = np.tan(b)
    return np.where(b < 1.5, t * (1 + f * f) / np.maximum(1 - np.abs(f) * t, 0), np.inf)


def _in_double(primitive: Any) -> Callable[[Array], Array]:
    """A function that NumPy lacks. XLA's own is good to a few units of float64."""

    def value(v: Array) -> Array:
        return by_jax(primitive, [v.astype(np.float64)], {})[0].astype(v.dtype)

    return value


def _hypotenuse_leg(v: Any, b: Any) -> Any:
    """``sqrt(1 - x**2)`` at the largest magnitude within b of v."""
    end = np.abs(v) + b
    return np.sqrt(np.maximum((1 - end) * (1 + end), 0))


FUNCTIONS: dict[str, Function] = {
    "exp": Function(np.exp, _exp_change, 4),
    # XLA's is exp(x log 2), whose product is rounded.
    "exp2": Function(
        np.exp2, lambda v, b, f: _exp_change(v * np.log(2), b * np.log(2), f), lambda v: 4 + 1.4 * np.abs(v)
    ),
    "expm1": Function(np.expm1, lambda v, b, f: _exp_change(v, b, f + 1), 8),
    "log": Function(np.log, lambda v, b, f: b / nearest(v, b), 4, poles=True),
    # Of float64 XLA's was found to be off by 240 units of u, and with it its atanh by 146.
    "log1p": Function(np.log1p, lambda v, b, f: b / nearest(1 + v, b), 4, poles=True),
    "atanh": Function(np.arctanh, lambda v, b, f: b / _hypotenuse_leg(v, b) ** 2, 6, poles=True),
    "sqrt": Function(np.sqrt, _sqrt_change, ROOT, poles=True),
    "rsqrt": Function(lambda v: 1 / np.sqrt(v), lambda v, b, f: b / 2 * nearest(v, b) ** -1.5, 4, poles=True),
    "cbrt": Function(np.cbrt, lambda v, b, f: np.minimum(b / (3 * np.cbrt(nearest(v, b)) ** 2), 1.6 * np.cbrt(b)), 6),
    "sin": Function(np.sin, lambda v, b, f: np.minimum(np.abs(np.cos(v)) * b + b * b / 2, 2), 4),
    "cos": Function(np.cos, lambda v, b, f: np.minimum(np.abs(np.sin(v)) * b + b * b / 2, 2), 4),
    "tan": Function(np.tan, _tan_change, 8, poles=True),
    "asin": Function(np.arcsin, lambda v, b, f: b / _hypotenuse_leg(v, b), 6, poles=True),
    "acos": Function(np.arccos, lambda v, b, f: b / _hypotenuse_leg(v, b), 6, poles=True),
    "atan": Function(np.arctan, lambda v, b, f: b / (1 + nearest(v, b) ** 2), 4),
    # XLA's are sums of exp(x - log 2) and exp(-x - log 2), whose arguments are rounded.
    "sinh": Function(np.sinh, lambda v, b, f: b * np.cosh(np.abs(v) + b), lambda v: 8 + np.abs(v)),
    "cosh": Function(np.cosh, lambda v, b, f: b * np.sinh(np.abs(v) + b), lambda v: 8 + np.abs(v)),
    "tanh": Function(np.tanh, lambda v, b, f: b / np.cosh(nearest(v, b)) ** 2, 8),
    "asinh": Function(np.arcsinh, lambda v, b, f: b / np.sqrt(1 + nearest(v, b) ** 2), 8),
    "acosh": Function(np.arccosh, lambda v, b, f: b / np.sqrt(np.maximum((v - b) ** 2 - 1, 0)), 10, poles=True),
    # As many as 1 / (1 + exp(-x)) has, see suites.ops.sigmoid.
    "logistic": Function(_logistic, lambda v, b, f: b / (4 * np.cosh(nearest(v, b) / 2) ** 2), 10),
    "erf": Function(
        _in_double(jax.lax.erf_p), lambda v, b, f: b * (2 / np.sqrt(np.pi)) * np.exp(-(nearest(v, b) ** 2)), 10
    ),
    # The error of exp(-x**2) grows with the square; beyond 30 there is nothing left in any dtype.
    "erfc": Function(
        _in_double(jax.lax.erfc_p),
        lambda v, b, f: b * (2 / np.sqrt(np.pi)) * np.exp(-(nearest(v, b) ** 2)),
        lambda v: 24 + np.minimum(v * v, 900),
    ),
}

LESS_ACCURATE_IN_DOUBLE = {"log1p": 256.0, "atanh": 256.0, "erf": 20.0}
"""The ``ulps`` of float64. That of erf allows for truth, which is itself computed in float64."""
