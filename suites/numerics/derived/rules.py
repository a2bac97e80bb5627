"""Bounds the errors of elementwise operations, for :mod:`suites.numerics.derived.reference`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.derived.estimate import (
    Estimate,
    Underivable,
    fits,
    in_any_order,
    joined,
    rounded,
    selected,
    unknown,
)
from suites.numerics.derived.functions import (
    ATAN2,
    DIVISION,
    FUNCTIONS,
    POWER,
    nearest,
)
from suites.numerics.error_model import WIDE

Params = dict[str, Any]
Operands = list[Estimate]
Rule = Callable[[Operands, Params, list[Any]], Operands]
"""Takes the operands and parameters of a primitive, and shapes and dtypes of its results. Returns their estimates."""


# Arithmetic. The error is the largest change of the exact result within the bounds of the operands, in the order of the
# reference. The error that other orders add follows from the sizes.


def _step(
    operands: Operands, dtype: np.dtype[Any], value: Any, error: Any, size: Any, quanta: Any, **more: Any
) -> Estimate:
    """Returns the estimate of one addition or multiplication.

    Args:
        operands: The numbers that are added or multiplied.
        dtype: The dtype of the result.
        value: The true result.
        error: The effect of the operands' errors.
        size: The sum or product of the operands' sizes; None if it is the magnitude of the value.
        quanta: The quanta of the result.
        **more: Other arguments of :func:`in_any_order`.
    """
    value = np.asarray(value).astype(WIDE[dtype], copy=False)
    estimate = rounded(value, error, dtype, unknown=unknown(*operands))
    return in_any_order(estimate, operands, size, quanta, once=True, **more)


def of_integers(value: Any, error: Any, dtype: np.dtype[Any]) -> Estimate:
    """Returns the estimate of integers. Exact ones may wrap around; those that depend on a rounded number must not."""
    if error is None:
        return Estimate(np.asarray(value).astype(dtype, copy=False), None, dtype)
    if (np.abs(np.asarray(value, np.float64)) + error >= np.iinfo(dtype).max).any():
        raise Underivable("integers that depend on a rounded number may wrap around")
    value = np.asarray(value).astype(dtype, copy=False)
    return Estimate(value, np.broadcast_to(error, value.shape), dtype)


def _integers(function: Any, rule: Rule) -> Rule:
    """Returns the rule, except that NumPy computes exact integers, which it wraps around like XLA."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        if any(operand.is_float or operand.error is not None for operand in operands):
            return rule(operands, params, outs)
        value = np.asarray(function(*(operand.value for operand in operands)))
        return [Estimate(value, None, outs[0].dtype)]

    return apply


def _add(sign: int) -> Rule:
    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x, y), dtype = operands, outs[0].dtype
        value = x.value + y.value if sign > 0 else x.value - y.value
        if dtype not in WIDE:
            return [of_integers(value, x.errors + y.errors, dtype)]
        quanta = np.minimum(x.terms_quanta, y.terms_quanta)
        estimate = _step(operands, dtype, value, x.owns + y.owns, x.sizes + y.sizes, quanta)
        if x.reach is None and y.reach is None:
            return [estimate]
        # a (b c + d) + e may be (a b) c + (a d + e): the factors of a product may come together after a sum.
        reach = np.minimum(x.factors[0], y.factors[0]), np.maximum(x.factors[1], y.factors[1])
        return [dataclasses.replace(estimate, reach=reach)]

    return apply


def _mul(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x, y), dtype = operands, outs[0].dtype
    if dtype not in WIDE:
        error = np.abs(x.value) * y.errors + (np.abs(y.value) + y.errors) * x.errors
        return [of_integers(x.value * y.value, error, dtype)]
    a, b = np.abs(x.value), np.abs(y.value)
    error, size = a * y.owns + (b + y.owns) * x.owns, None
    if x.size is not None or y.size is not None:
        size = np.maximum(x.sizes * b + a * y.sizes - a * b, a * b)
    quanta: Any = x.terms_quanta * y.terms_quanta
    for each, factor in ((x, b), (y, a)):
        if each.summed:  # a mean
            quanta = np.where(factor < 0.5, 0, quanta)
    reach = None
    if x.reach is not None or y.reach is not None or x.is_extreme or y.is_extreme:
        reach = x.factors[0] * y.factors[0], x.factors[1] * y.factors[1]
    return [_step(operands, dtype, x.value * y.value, error, size, quanta, reach=reach)]


def _one_minus_square(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of ``1 - x**2``, which JAX computes as ``(1 + x) (1 - x)``."""
    one = Estimate(np.ones((), operands[0].value.dtype), None, outs[0].dtype)
    return _mul([_add(sign)([one, *operands], params, outs)[0] for sign in (1, -1)], params, outs)


def _div(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x, y), dtype = operands, outs[0].dtype
    if dtype not in WIDE:
        raise Underivable("no bound is derived for quotients of integers that depend on a rounded number")
    value = np.asarray(x.value / y.value).astype(WIDE[dtype], copy=False)
    # A GPU may round a quotient even if it fits, unless the divisor is a power of two. And a mean may be a running one,
    # which is divided by each number on the way.
    power = np.abs(np.frexp(y.value)[0]) == 0.5
    quanta = np.where(power & ~(x.summed & (np.abs(y.value) > 2)), x.terms_quanta / np.abs(y.value), 0)
    ulps = np.where(power, 1, DIVISION)
    error: Any = np.zeros((), value.real.dtype)
    zero: Any = False
    if x.own is not None or y.error is not None:
        error = (x.owns + np.abs(value) * y.errors) / nearest(y.value, y.errors)
        # An exact 1 / 0 is infinite in a kernel too. But 0 / 0 need not be NaN there if one of the zeros has an error.
        zero = (np.abs(y.value) <= y.errors) & ((y.errors > 0) | (np.abs(x.value) <= x.owns) & (x.owns > 0))
    if y.overflows is not None:
        error = np.where(y.overflows, np.maximum(error, np.abs(value)), error)
    estimate = rounded(value, error, dtype, ulps, unknown=unknown(x, y) | zero)
    size = None if x.size is None else x.sizes / np.abs(y.value)
    reach = None
    if x.reach is not None:
        low, high = y.ended().factors
        reach = x.reach[0] / high, x.reach[1] / low
    # Each term may be divided, or multiplied by the reciprocal.
    estimate = in_any_order(estimate, [x, y.ended()], size, quanta, 2 if x.steps else 1, once=power, reach=reach)
    return [dataclasses.replace(estimate, formulas_agree=_by_any_formula(x, y, value, dtype))]


def _by_any_formula(x: Estimate, y: Estimate, value: Array, dtype: np.dtype[Any]) -> Any:
    """Returns where a quotient of exact numbers fits the dtype, and equals the product with the rounded reciprocal."""
    if x.steps or y.steps:
        return None
    agree = fits(value, dtype) & (x.errors == 0) & (y.errors == 0)
    for each in {dtype, np.promote_types(dtype, np.float32), np.dtype(np.float64)}:
        agree &= x.value.astype(each) * (each.type(1) / y.value.astype(each)) == value
    return agree


def _integer_pow(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x,), n, dtype = operands, params["y"], outs[0].dtype
    value = x.value**n if n >= 0 else 1 / x.value ** (-n)
    ulps = max(abs(n) - 1, 0) + (DIVISION if n < 0 else 0)
    # Nothing is rounded if all smaller powers fit, in whatever order a kernel multiplies.
    once: Any = False
    if 0 <= n <= 32:
        once = np.all([fits(x.value**k, dtype) for k in range(2, n + 1)], axis=0)
    errors = x.owns if n > 0 else x.errors
    end = np.abs(x.value) + errors if n > 0 else nearest(x.value, errors)
    zero = (end == 0) & (errors > 0) if n < 0 else False
    error = np.where(errors > 0, abs(n) * end ** float(n - 1) * errors, 0)
    estimate = rounded(value, error, dtype, ulps, unknown=unknown(x) | zero)
    if n <= 0:
        return [estimate]
    a = np.abs(x.value)
    size = None if x.size is None else a**n + n * a ** (n - 1) * (x.sizes - a)
    quanta = 0.0 if np.ndim(x.terms_quanta) == 0 else x.terms_quanta**n
    return [in_any_order(estimate, operands, size, quanta, max(abs(n) - 1, 1), once=once)]


def _pow(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The change of a power: the logarithm of the factor is the change of ``y log|x|``."""
    x, y = operands
    value, exponent = np.power(x.value, y.value), np.abs(y.value) + y.errors
    change = np.where(x.errors > 0, exponent * x.errors / nearest(x.value, x.errors), 0)
    change = change + np.where(y.errors > 0, np.abs(np.log(np.abs(x.value))) * y.errors, 0)
    change = np.where(np.isnan(change), np.inf, change)
    error = np.where(change > 0, np.abs(value) * np.expm1(change), 0)
    return [rounded(value, error, outs[0].dtype, POWER, unknown=unknown(x, y) | np.isinf(change))]


def _atan2(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    y, x = operands
    distance = np.hypot(x.errors, y.errors)
    error = np.where(distance > 0, distance / np.maximum(np.hypot(x.value, y.value) - distance, 0), 0)
    # At the negative half of the x axis it jumps by a whole turn.
    jumps = (x.value <= x.errors) & (np.abs(y.value) <= y.errors) & (y.errors > 0)
    error = np.where(jumps, np.inf, error)
    return [rounded(np.arctan2(y.value, x.value), np.minimum(error, 2 * np.pi), outs[0].dtype, ATAN2)]


def _rem(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of ``x - y trunc(x / y)``. It is exact, but jumps by y if the quotient may pass a whole number."""
    x, y = operands
    value = np.fmod(x.value, y.value)
    if x.error is None and y.error is None:
        return [Estimate(value, None, outs[0].dtype)]
    quotient = np.abs(x.value / y.value)
    reach = (x.errors + quotient * y.errors) / nearest(y.value, y.errors)
    whole = np.trunc(quotient)
    jumps = ~((quotient - reach >= whole) & (quotient + reach < whole + 1))
    error = x.errors + (whole + 1) * y.errors + np.where(jumps, np.abs(y.value), 0)
    return [rounded(value, error, outs[0].dtype, 1, unknown=unknown(x, y))]


def _of_one(name: str) -> Rule:
    return lambda operands, params, outs: [FUNCTIONS[name](operands[0], outs[0].dtype)]


# Operations that round nothing. The error does not grow, unless the function jumps.


def _extreme(function: Any, sign: int) -> Rule:
    """Returns the rule of a maximum or minimum of two. The error of an operand counts where it may be the result."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        x, y = operands
        value = np.asarray(function(x.value, y.value))
        if x.error is None and y.error is None:
            return [Estimate(value, None, x.dtype)]
        ahead, reach = sign * (x.value - y.value), x.errors + y.errors
        error = np.maximum(np.where(ahead < -reach, 0, x.errors), np.where(ahead > reach, 0, y.errors))
        return [selected(value, np.broadcast_to(error, value.shape), x.dtype)]

    return apply


def _clamp(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    lower, x, upper = operands
    return RULES["min"]([*RULES["max"]([lower, x], {}, outs), upper], {}, outs)


def _stair(function: Callable[[Any, Params], Any]) -> Rule:
    """Returns the rule of a function that rises in steps."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x,), dtype = operands, outs[0].dtype
        value = np.asarray(function(x.value, params))
        if x.error is None:
            return [Estimate(value, None, dtype)]
        jump = _jump(lambda v: function(v, params), x, value)
        return [rounded(value, jump, dtype, 0, unknown=unknown(x))]

    return apply


def _nearest_integer(v: Any, params: Params) -> Any:
    to_even = int(params["rounding_method"]) == 1
    return np.rint(v) if to_even else np.copysign(np.floor(np.abs(v) + 0.5), v)


def _convert(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x,), dtype = operands, outs[0].dtype
    if dtype == x.dtype:
        return [x]
    if dtype in WIDE:
        value = np.asarray(x.value.astype(WIDE[dtype]))
        once = fits(value, dtype)
        if x.error is None and np.all(once):
            return [Estimate(value, None, dtype)]
        return [rounded(value, x.errors, dtype, np.where(once & (x.errors == 0), 0, 1), unknown=unknown(x))]
    if dtype == np.bool_:
        return [_boolean(x.value != 0, np.abs(x.value) <= x.errors, x)]
    if not x.is_float:
        return [of_integers(x.value, x.error, dtype)]
    value = _saturated(x.value, dtype)
    if x.error is None:
        return [Estimate(value, None, dtype)]
    jump = _jump(lambda v: _saturated(v, dtype).astype(float), x, value)
    return [Estimate(value, jump, dtype)]


def _jump(function: Callable[[Array], Any], x: Estimate, value: Array) -> Array:
    """Returns the error of a function that rises in steps, from its values at both ends of the operand's bounds."""
    doubt = x.doubt
    return np.where(doubt > 0, np.maximum(function(x.value + doubt) - value, value - function(x.value - doubt)), 0)


def _saturated(v: Array, dtype: np.dtype[Any]) -> Array:
    """Converts floats to integers like XLA: NaN becomes zero, and numbers beyond the range its nearest end."""
    limits, v = np.iinfo(dtype), np.where(np.isnan(v), 0, np.trunc(v))
    # The largest integer may have no float.
    inside = (v > float(limits.min)) & (v < float(limits.max))
    whole = np.where(inside, v, 0).astype(dtype)
    return np.where(inside, whole, np.where(v <= float(limits.min), limits.min, limits.max)).astype(dtype)


# Comparisons and choices. The error of a boolean is 1 if it may be true or false.


def _boolean(value: Any, near: Any, *operands: Estimate) -> Estimate:
    """Returns the estimate of a boolean. It may be true or false where operands with errors are near the threshold."""
    uncertain: Any = False
    for operand in operands:
        uncertain = uncertain | (operand.doubt > 0)
    uncertain = np.broadcast_to(uncertain & near, np.shape(value))
    return Estimate(np.asarray(value), uncertain.astype(np.float64) if uncertain.any() else None, np.dtype(bool))


def _comparison(function: Any) -> Rule:
    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        x, y = operands
        value = function(x.value, y.value)
        if x is y:  # x != x asks for NaN, and no error of x changes that
            return [_boolean(value, False)]
        reach = x.doubt + y.doubt
        near = np.abs(x.value.astype(reach.dtype) - y.value.astype(reach.dtype)) <= reach
        return [_boolean(value, near | np.isinf(reach), x, y)]

    return apply


def _logical(function: Any, absorbing: bool | None) -> Rule:
    """Returns the rule of ``and`` and ``or``. An ``absorbing`` operand alone fixes the result: False for ``and``."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        if outs[0].dtype != np.bool_:
            raise Underivable("no bound is derived for the bits of integers that depend on a rounded number")
        is_fixed: Any = False
        if absorbing is not None:
            for operand in operands:
                is_fixed = is_fixed | ((operand.errors == 0) & (operand.value == absorbing))
        return [_boolean(function(*(operand.value for operand in operands)), np.logical_not(is_fixed), *operands)]

    return apply


def _select(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of a choice. If the choice is uncertain, the error is the distance to the farthest case."""
    which, *cases = operands
    index = np.broadcast_to(which.value.astype(np.intp), outs[0].shape)

    def chosen(arrays: list[Array]) -> Array:
        if len(arrays) == 2:
            return np.where(index == 1, arrays[1], arrays[0])
        return np.asarray(np.take_along_axis(np.stack(arrays), index[None], 0)[0])

    estimate = joined(cases, chosen)
    if which.error is None:
        return [estimate]
    value, farthest = estimate.value, np.zeros(())
    for case in cases:
        equal = (case.value == value) | (case.value != case.value) & (value != value)
        distance = np.where(equal, 0, np.abs(case.value.astype(case.errors.dtype) - value.astype(case.errors.dtype)))
        farthest = np.maximum(farthest, np.where(np.isnan(distance), np.inf, distance) + case.errors)
    error = np.where(which.error > 0, farthest, estimate.owns)
    exact = None if estimate.exact is None else estimate.exact & (which.error == 0)
    return [dataclasses.replace(estimate, own=error, exact=exact)]


RULES: dict[str, Rule] = {
    **{name: _of_one(name) for name in FUNCTIONS},
    "add": _integers(np.add, _add(1)),
    "add_any": _add(1),
    "sub": _integers(np.subtract, _add(-1)),
    "mul": _integers(np.multiply, _mul),
    "square": lambda operands, params, outs: _mul([*operands, *operands], params, outs),
    "one_minus_square": _one_minus_square,
    "div": _div,
    "integer_pow": _integer_pow,
    "pow": _pow,
    "atan2": _atan2,
    "rem": _rem,
    "neg": lambda operands, params, outs: [dataclasses.replace(operands[0], value=np.asarray(-operands[0].value))],
    "abs": lambda operands, params, outs: [
        Estimate(np.asarray(np.abs(operands[0].value)), operands[0].error, operands[0].dtype)
    ],
    "max": _extreme(np.maximum, 1),
    "min": _extreme(np.minimum, -1),
    "clamp": _clamp,
    "floor": _stair(lambda v, params: np.floor(v)),
    "ceil": _stair(lambda v, params: np.ceil(v)),
    "sign": _stair(lambda v, params: np.sign(v)),
    "round": _stair(_nearest_integer),
    "convert_element_type": _convert,
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "is_finite": lambda operands, params, outs: [
        _boolean(np.isfinite(operands[0].value), unknown(*operands), *operands)
    ],
    "and": _logical(np.logical_and, False),
    "or": _logical(np.logical_or, True),
    "xor": _logical(np.logical_xor, None),
    "not": _logical(np.logical_not, None),
    "select_n": _select,
}
"""The rule of each primitive, by its name."""

FOR_INTEGERS = {*("add", "sub", "mul", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "select_n")}
"""Primitives whose rules compute exact integers like XLA, without compiling anything."""
