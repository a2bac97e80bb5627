"""Derives true cotangents and tangents from the reference, for operators that declare no bounds of derivatives.

The derivative of the reference is itself a function of arrays: of the inputs and of cotangents or tangents. So its true
results and their error bounds are derived by :func:`suites.derived_truth`, as for any function. A kernel may
compute the same derivative by other formulas, with a rounding here and there that JAX's formulas do not have. So the
bounds are :data:`SLACK` times as wide, with one more rounding. A factor of 1.001 stays far outside of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.declare.differentiation import function_of
from suites.declare.operator import Operator
from suites.numerics.arrays import Array
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.verdict import Verdict, judge

SLACK = 8
"""How many times the bound of JAX's formulas a derivative by other formulas may be off."""

CURE = (
    "the derivative of the reference is required. If another one is meant, such as a surrogate, give the reference a "
    "jax.custom_vjp; if there is to be none, declare gradient=None"
)
"""What an author can do about a derivative that is not the reference's."""


def derived_cotangents(operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array]) -> Truth:
    """The cotangents of the inputs that have one, with derived error bounds."""
    indices = tuple(operator.differentiated(inputs))
    real = tuple(array.dtype.kind == "f" for array in cotangents)
    given = [array for array, is_real in zip(cotangents, real, strict=True) if is_real]
    return _with_slack(derived_truth(_pulled(operator, indices, real, len(inputs)), (*inputs, *given)))


def derived_tangents(operator: Operator, inputs: Sequence[Array], tangents: Sequence[Array]) -> Truth:
    """The tangents of the outputs of real floats, with derived error bounds.

    Args:
        operator: The operator.
        inputs: Its inputs.
        tangents: A tangent for each input that has a derivative.
    """
    indices = tuple(operator.differentiated(inputs))
    return _with_slack(derived_truth(_pushed(operator, indices, len(inputs)), (*inputs, *tangents)))


def derived_second(
    operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array], directions: Sequence[Array]
) -> Truth:
    """The second derivatives: the pullback of the pullback, of a cotangent for each cotangent of an input.

    Args:
        operator: The operator.
        inputs: Its inputs.
        cotangents: Cotangents of its outputs.
        directions: Cotangents of the cotangents of the inputs that have one.
    """
    indices = tuple(operator.differentiated(inputs))
    real = tuple(array.dtype.kind == "f" for array in cotangents)
    given = [array for array, is_real in zip(cotangents, real, strict=True) if is_real]
    twice = _pulled_twice(operator, indices, real, len(inputs))
    return _with_slack(derived_truth(twice, (*inputs, *given, *directions)))


def judge_derivative(operator: Operator, found: list[Array], truth: Truth) -> Verdict:
    """Judges cotangents or tangents.

    Where the true one is infinite or NaN, the derivative is not defined: if it was derived, any value is accepted.
    """
    gradient = operator.gradient
    if gradient is None or not gradient.is_derived:
        return judge(found, truth)
    defined = [np.isfinite(expected.value) for expected in truth.outputs]
    if any(each.size for each in defined) and not any(each.any() for each in defined):
        return Verdict(
            Status.UNCHECKED,
            "the derivative of the reference is infinite or NaN everywhere at these inputs. Declare sample= with "
            "inputs where it is defined",
            None,
        )
    same_types = [(each.shape, each.dtype) for each in found] == [
        (expected.value.shape, expected.dtype) for expected in truth.outputs
    ]
    if same_types:
        found = [
            np.where(known, own, expected.value.astype(own.dtype))
            for known, own, expected in zip(defined, found, truth.outputs, strict=True)
        ]
    verdict = judge(found, truth)
    return replace(verdict, reason=f"{verdict.reason}; {CURE}") if verdict.status is Status.WRONG_VALUE else verdict


def _with_slack(truth: Truth) -> Truth:
    def wider(expected: Expected) -> Expected:
        if expected.margin is None:
            return expected
        rounding = float(finfo(expected.dtype).eps) / 2 * np.nan_to_num(np.abs(expected.value), posinf=0)
        return replace(expected, margin=SLACK * (expected.margin + rounding))

    outputs = tuple(map(wider, truth.outputs))
    return replace(truth, outputs=outputs, alternative=tuple(map(wider, truth.alternative)))


@functools.lru_cache(maxsize=64)
def _pulled(
    operator: Operator, indices: tuple[int, ...], real: tuple[bool, ...], count: int
) -> Callable[..., list[jax.Array]]:
    """The pullback of the reference as a function of the inputs and the cotangents of outputs of floats."""

    def pulled(*arrays: Any) -> list[jax.Array]:
        inputs, given = arrays[:count], iter(arrays[count:])
        function, floats = function_of(operator.reference, inputs, indices)
        outs, vjp = jax.vjp(function, *floats)
        cotangents = [
            next(given).astype(out.dtype) if is_real else np.zeros(out.shape, jax.dtypes.float0)
            for is_real, out in zip(real, outs, strict=True)
        ]
        return list(vjp(cotangents))

    return pulled


@functools.lru_cache(maxsize=64)
def _pushed(operator: Operator, indices: tuple[int, ...], count: int) -> Callable[..., list[jax.Array]]:
    """The pushforward of the reference as a function of the inputs and the tangents of inputs with a derivative."""

    def pushed(*arrays: Any) -> list[jax.Array]:
        function, floats = function_of(operator.reference, arrays[:count], indices)
        outs, tangents = jax.jvp(function, floats, list(arrays[count:]))
        return [each for each, out in zip(tangents, outs, strict=True) if np.dtype(out.dtype).kind == "f"]

    return pushed


@functools.lru_cache(maxsize=64)
def _pulled_twice(
    operator: Operator, indices: tuple[int, ...], real: tuple[bool, ...], count: int
) -> Callable[..., list[jax.Array]]:
    """The pullback of :func:`_pulled` as a function of inputs, cotangents and directions."""
    once, first = _pulled(operator, indices, real, count), count + sum(real)

    def pulled(*arrays: Any) -> list[jax.Array]:
        function, floats = function_of(lambda *inputs: once(*inputs, *arrays[count:first]), arrays[:count], indices)
        _, vjp = jax.vjp(function, *floats)
        return list(vjp(list(arrays[first:])))

    return pulled
