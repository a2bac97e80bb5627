"""Bounds the errors of reductions, running sums and matrix products, for :mod:`suites.numerics.derived.reference`.

A sum is bounded for any order of its terms: each of k terms goes through at most k - 1 additions (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 4.2). A term of a dot product goes through one more rounding.

A tensor core multiplies exactly. Before that it cuts float32 to TF32 if the reference asks for this, and it adds up
products of 8-bit numbers with fewer bits than float32 has (:mod:`suites.numerics.precision`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.derived.estimate import Estimate, Underivable, by_jax, in_any_order, rounded, selected, unit
from suites.numerics.derived.rules import Operands, Params, Rule, of_integers
from suites.numerics.error_model import WIDE, finfo, sum_error
from suites.numerics.precision import FLOAT8, FLOAT8_SUM_BITS, TF32_BITS, multiplies_tf32

FEW_VALUES = 16
"""Terms take few values if a value occurs more often than this on average."""

LOOKED_AT = 4096
"""Most terms of a sum whose values are counted."""


def summed(
    value: Any,
    sizes: Any,
    errors: Any,
    roundings: Any,
    dtype: np.dtype[Any],
    *,
    varied: Any = False,
    double: bool = False,
    bits: int | None = None,
) -> Estimate:
    """Returns the estimate of a sum.

    Args:
        value: The true sum.
        sizes: The sum of the absolute values of the terms.
        errors: The sum of the errors of the terms.
        roundings: The longest chain of roundings that a term goes through.
        dtype: The dtype of the sum.
        varied: True where the terms take many values.
        double: Whether truth was added up in float64, however wide its type is.
        bits: The bits to which partial sums are cut off; None if they are rounded to the dtype.
    """
    if dtype not in WIDE:
        return of_integers(value, errors, dtype)
    several = np.where(np.asarray(sizes) > 0, roundings, 0)
    step = unit(dtype) * (2 if double and finfo(dtype).eps == np.finfo(np.float64).eps else 1)
    own = sum_error(sizes + errors, several, step if bits is None else 2.0 ** (1 - bits), varied)
    total = np.where(several > 0, own, 0) + errors
    return rounded(value, total, dtype, 0, unknown=np.isinf(errors), flushes=several)


def _reduce_sum(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x,), axes, dtype = operands, tuple(params["axes"]), outs[0].dtype
    count = math.prod(x.value.shape[axis] for axis in axes)
    value, sizes = x.value.sum(axis=axes), x.sizes.sum(axis=axes)
    errors = np.zeros(()) if x.own is None else x.own.sum(axis=axes)
    if not x.is_float:
        return [of_integers(value, errors, dtype)]
    estimate = summed(value, sizes, errors, count - 1, dtype, varied=_varied(x.value, axes, dtype))
    exact = np.broadcast_to(x.is_exact, x.value.shape).all(axis=axes)
    return [in_any_order(estimate, [x], sizes, _least(x, axes), 1 if count > 1 else 0, exact=exact)]


def _varied(terms: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns where roundings of a sum have mean zero: its terms take many values, and few are lost in it."""
    rows = np.moveaxis(np.abs(terms), axes, range(-len(axes), 0))
    rows = rows.reshape(*rows.shape[: terms.ndim - len(axes)], math.prod(rows.shape[terms.ndim - len(axes) :]))
    length, size = rows.shape[-1], rows.sum(axis=-1) * unit(dtype)
    lost = np.where(rows < size[..., None], rows, 0).sum(axis=-1)
    ordered = np.sort(rows[..., :: -(-length // LOOKED_AT) or 1], axis=-1)
    distinct = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1)
    often = FEW_VALUES if length <= LOOKED_AT else 2  # of very many terms, only some are counted
    return np.asarray((distinct * often >= ordered.shape[-1]) & (lost <= np.sqrt(length) * size))


def _least(x: Estimate, axis: Any) -> Any:
    """Returns the quanta of sums along axes."""
    return np.broadcast_to(x.terms_quanta, x.value.shape).min(axis=axis, initial=np.inf)


def _along(function: Any, params: Params) -> Callable[[Array], Array]:
    """Returns a running sum or maximum along an axis, from either end."""
    axis = params["axis"]

    def run(array: Array) -> Array:
        if params["reverse"]:
            return np.asarray(np.flip(function(np.flip(array, axis), axis), axis))
        return np.asarray(function(array, axis))

    return run


def _count_before(x: Estimate, params: Params) -> Array:
    """Returns the number of elements before each one, along the axis of a running sum or maximum."""
    shape = [1] * x.value.ndim
    shape[params["axis"]] = x.value.shape[params["axis"]]
    return _along(np.cumsum, params)(np.ones(shape)) - 1


def _cumsum(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    (x,), run = operands, _along(np.cumsum, params)
    errors, sizes = np.zeros(()) if x.own is None else run(x.own), run(x.sizes)
    if not x.is_float:
        return [of_integers(run(x.value), errors, outs[0].dtype)]
    quanta = np.expand_dims(_least(x, params["axis"]), params["axis"])
    varied = np.expand_dims(_varied(x.value, (params["axis"],), outs[0].dtype), params["axis"])
    estimate = summed(run(x.value), sizes, errors, _count_before(x, params), outs[0].dtype, varied=varied)
    return [in_any_order(estimate, [x], sizes, quanta, exact=bool(np.all(x.is_exact)))]


def _candidates(x: Estimate, axes: tuple[int, ...], sign: int) -> Array:
    """Returns which elements may be the largest, or the smallest for sign -1."""
    surely = (sign * x.value - x.errors).max(axis=axes, keepdims=True, initial=-np.inf)
    return np.asarray(~(sign * x.value + x.errors < surely))


def _reduce_extreme(function: Any, sign: int) -> Rule:
    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x,), axes = operands, tuple(params["axes"])
        lowest = -sign * np.inf if x.is_float else (np.iinfo(x.dtype).min if sign > 0 else np.iinfo(x.dtype).max)
        value, error = np.asarray(function(x.value, axis=axes, initial=lowest)), None
        if x.error is not None:
            error = np.where(_candidates(x, axes, sign), x.error, 0).max(axis=axes, initial=0)
        return [selected(value, error, x.dtype)]

    return apply


def _index_of_extreme(function: Any, sign: int) -> Rule:
    """Returns the rule of the index of the first maximum. Its error is the distance to the farthest other candidate."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x,), axis = operands, params["axes"][0]
        value, error = np.asarray(function(x.value, axis=axis)), None
        if x.error is not None:
            indices = np.arange(x.value.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.value.ndim)])
            away = np.abs(indices - np.expand_dims(value, axis))
            error = np.where(_candidates(x, (axis,), sign), away, 0).max(axis=axis).astype(np.float64)
        return [Estimate(value.astype(outs[0].dtype), error, outs[0].dtype)]

    return apply


def _running_extreme(function: Any) -> Rule:
    """Returns the rule of a running maximum or minimum: its error is at most the largest error of its elements."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x,) = operands
        error = None if x.error is None else _along(np.maximum.accumulate, params)(x.error)
        return [selected(_along(function.accumulate, params)(x.value), error, x.dtype)]

    return apply


def _reduce_logical(function: Any, absorbing: bool) -> Rule:
    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        (x,), axes = operands, tuple(params["axes"])
        if outs[0].dtype != np.bool_:
            raise Underivable("no bound is derived for the bits of integers that depend on a rounded number")
        is_fixed = ((x.errors == 0) & (x.value == absorbing)).any(axis=axes)
        uncertain = (x.errors > 0).any(axis=axes) & ~is_fixed
        return [Estimate(np.asarray(function(x.value, axis=axes)), uncertain.astype(np.float64), outs[0].dtype)]

    return apply


def _in_tf32(x: Estimate) -> tuple[Estimate, Array]:
    """Returns the estimate of a factor of TF32, and what it loses. The largest numbers may be rounded to infinity."""
    if x.dtype != np.float32:
        return x, np.zeros(x.value.shape)
    fits = (np.frexp(x.value)[0] * 2**TF32_BITS % 1 == 0) | ~np.isfinite(x.value)
    lost = np.where(fits, 0, 2.0 ** (1 - TF32_BITS) * np.abs(x.value))
    overflows = np.abs(x.value) + lost > float(finfo(x.dtype).max)
    size = np.where(overflows, np.inf, x.sizes) if overflows.any() else x.size
    return dataclasses.replace(x, size=size, exact=x.is_exact & fits), lost


def _dot_general(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    x, y = operands
    ((left, right), (left_batch, right_batch)), dtype = params["dimension_numbers"], outs[0].dtype
    if dtype not in WIDE:
        raise Underivable("no bound is derived for products of integers that depend on a rounded number")
    bits = FLOAT8_SUM_BITS if x.dtype == y.dtype == FLOAT8 else None
    count = math.prod(x.value.shape[axis] for axis in left)
    roundings = count + 1

    def matrices(array: Array, batch: Any, contracted: Any) -> Array:
        """Returns one matrix for each index of the batch, with the contracted axes last."""
        free = [axis for axis in range(array.ndim) if axis not in (*batch, *contracted)]
        rows = math.prod(array.shape[axis] for axis in free)
        # The operands may be narrower than the result.
        ordered = np.transpose(array, (*batch, *free, *contracted)).astype(WIDE[dtype])
        return np.ascontiguousarray(ordered.reshape(*(array.shape[axis] for axis in batch), rows, count))

    def product(a: Array, b: Array) -> Array:
        a, b = matrices(a, left_batch, left), matrices(b, right_batch, right)
        return np.asarray((a @ b.swapaxes(-1, -2)).reshape(outs[0].shape))

    a, b, errors = np.abs(x.value), np.abs(y.value), np.zeros(())
    if multiplies_tf32(params["precision"]):
        (x, x_lost), (y, y_lost) = map(_in_tf32, operands)
        operands = [x, y]
        finite_a, finite_b = (np.where(np.isfinite(each), each, 0) for each in (a, b))  # infinity stays infinite
        errors = product(finite_a, y_lost) + product(x_lost, finite_b + y_lost)
    if y.own is not None:
        errors = errors + product(a, y.own)
    if x.own is not None:
        errors = errors + product(x.own, b + y.owns)
    plain = sizes = product(a, b)
    if x.size is not None or y.size is not None:
        sizes = np.maximum(product(x.sizes, b) + product(a, y.sizes) - plain, plain)

    def least(operand: Estimate, batch: Any, contracted: Any) -> Array:
        quanta = np.broadcast_to(operand.terms_quanta, operand.value.shape)
        return np.asarray(matrices(quanta, batch, contracted).min(axis=-1, initial=np.inf))

    quanta = least(x, left_batch, left)[..., :, None] * least(y, right_batch, right)[..., None, :]
    quanta = quanta.reshape(outs[0].shape)
    varied = (
        _varied(matrices(x.value, left_batch, left), (-1,), dtype)[..., :, None]
        | _varied(matrices(y.value, right_batch, right), (-1,), dtype)[..., None, :]
    ).reshape(outs[0].shape)
    estimate = summed(product(x.value, y.value), sizes, errors, roundings, dtype, varied=varied, bits=bits)
    is_exact = all(np.all(x.is_exact) for x in operands)
    return [in_any_order(estimate, operands, sizes, quanta, 2, exact=is_exact, bits=bits)]


def _convolution(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of a convolution, which is linear in each of its operands. JAX computes it in float64."""
    kernel, axes, dtype = operands[1].value.shape, params["dimension_numbers"].rhs_spec, outs[0].dtype
    roundings = math.prod(kernel[axis] for axis in axes[1:])  # all but the channels of the result
    params = params | {"preferred_element_type": np.dtype(np.float64)}

    def run(arrays: list[Array]) -> Array:
        return by_jax(jax.lax.conv_general_dilated_p, [array.astype(np.float64) for array in arrays], params)[0]

    sizes, errors = run([x.sizes for x in operands]), np.zeros(())
    if any(x.own is not None for x in operands):
        magnitudes = [np.abs(x.value) for x in operands]
        most = run([size + x.owns for size, x in zip(magnitudes, operands, strict=True)])
        # Both are rounded relative to themselves, not to their difference.
        errors = np.maximum(most - run(magnitudes), 0) + 4 * (roundings + 1) * unit(np.dtype(np.float64)) * most
    value = run([x.value for x in operands])
    if not np.isfinite(sizes).all():
        # Finite terms that leave the range of float64: the order of the additions decides between infinity and NaN.
        special = [~np.isfinite(x.value) for x in operands]
        count = run([special[0], np.ones_like(special[1])]) + run([np.ones_like(special[0]), special[1]])
        unknown = ~np.isfinite(sizes) & (count == 0)
        value, errors = np.where(unknown, 0.0, value), np.where(unknown, np.inf, errors)
    quanta = math.prod(float(np.min(x.terms_quanta, initial=np.inf)) for x in operands)
    estimate = summed(value, sizes, errors, roundings, dtype, double=True)
    return [in_any_order(estimate, operands, sizes, quanta, 2, exact=all(np.all(x.is_exact) for x in operands))]


RULES: dict[str, Rule] = {
    "reduce_sum": _reduce_sum,
    "reduce_max": _reduce_extreme(np.max, 1),
    "reduce_min": _reduce_extreme(np.min, -1),
    "reduce_and": _reduce_logical(np.all, False),
    "reduce_or": _reduce_logical(np.any, True),
    "argmax": _index_of_extreme(np.argmax, 1),
    "argmin": _index_of_extreme(np.argmin, -1),
    "cumsum": _cumsum,
    "cummax": _running_extreme(np.maximum),
    "cummin": _running_extreme(np.minimum),
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
}
"""The rule of each primitive, by its name."""
