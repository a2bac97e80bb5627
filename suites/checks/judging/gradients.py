"""Takes derivatives of kernels, and judges them by the true derivatives of the reference.

The derivative of the reference is itself a function of arrays: of the inputs and of cotangents or tangents. So
:func:`suites.derived_truth` derives its true results and their error bounds, as for any function. A kernel may compute
the same derivative by other formulas, with other roundings. So the bounds are :data:`SLACK` times as wide, with one
more rounding, unless the derivative is exact in every order. An error by a factor of 1.001 is still far outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.declare.differentiation import between_floats, function_of, real_floats
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, kind_of
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.precision import precision
from suites.numerics.verdict import ResultVerdict, judge_where

SLACK = 4
"""The bound of a derivative by other formulas, in bounds of JAX's formulas."""

CURE = (
    "the derivative of the reference is required. If another one is meant, such as a surrogate, give the reference a "
    "jax.custom_vjp; if there is to be none, declare gradient=None"
)
"""Advice for an author whose kernel has another derivative than the reference."""


def random_cotangents(operator: Operator, inputs: Sequence[Any], seed: int) -> list[Array]:
    """Normally distributed cotangents of the outputs. Integer outputs have cotangents of JAX's type ``float0``."""
    random = np.random.default_rng([seed, 1])  # not the stream of the inputs, which may start with the seed
    return [
        random.standard_normal(out.shape).astype(out.dtype)
        if kind_of(out.dtype) == "f"
        else np.zeros(out.shape, jax.dtypes.float0)
        for out in operator.outputs(*inputs)
    ]


def random_directions(operator: Operator, inputs: Inputs, seed: int, stream: int = 2) -> list[Array]:
    """Normally distributed arrays like the inputs that have a derivative, such as tangents."""
    random = np.random.default_rng([seed, stream])  # another stream than inputs and cotangents
    moving = [inputs[index] for index in operator.differentiated(inputs)]
    return [np.asarray(random.standard_normal(array.shape)).astype(array.dtype) for array in moving]


def with_floats(call: Callable[..., Any], operator: Operator, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The call as a function of the inputs that have a derivative, and those inputs."""
    return function_of(call, inputs, operator.differentiated(inputs))


def pullback(call: Callable[..., Any], operator: Operator) -> Callable[..., Any]:
    """A function of inputs and output cotangents that returns the outputs and the input cotangents."""

    def function_of_both(inputs: Sequence[Any], cotangents: Any) -> Any:
        function, floats = with_floats(call, operator, inputs)
        outs, vjp = jax.vjp(function, *floats)
        return outs, vjp(cotangents)

    return function_of_both


def true_cotangents(operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array]) -> Truth:
    """Returns the cotangents of the differentiable inputs, with derived error bounds."""
    return _with_slack(derived_truth(_pulled(operator, len(inputs)), (*inputs, *real_floats(cotangents))))


def true_tangents(operator: Operator, inputs: Sequence[Array], tangents: Sequence[Array]) -> Truth:
    """Returns the tangents of the outputs of real floats, with derived error bounds.

    Args:
        operator: The operator.
        inputs: Its inputs.
        tangents: A tangent for each input that has a derivative.
    """
    return _with_slack(derived_truth(_pushed(operator, len(inputs)), (*inputs, *tangents)))


def true_second(
    operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array], directions: Sequence[Array]
) -> Truth:
    """Returns the second derivatives: the pullback of the pullback, for a cotangent of each cotangent of an input.

    Args:
        operator: The operator.
        inputs: Its inputs.
        cotangents: Cotangents of its outputs.
        directions: Cotangents of the cotangents of the differentiable inputs.
    """
    real_cotangents = real_floats(cotangents)
    twice = _pulled_twice(operator, len(inputs), len(real_cotangents))
    return _with_slack(derived_truth(twice, (*inputs, *real_cotangents, *directions)))


def judge_derivative(derivatives: Sequence[Any], truth: Truth) -> ResultVerdict:
    """Judges cotangents or tangents.

    Where the true one is infinite or NaN, the derivative is not defined, and any value is accepted.
    """
    defined = [np.isfinite(expected.value) for expected in truth.outputs]
    if any(each.size for each in defined) and not any(each.any() for each in defined):
        return ResultVerdict(
            Status.UNCHECKED,
            "the derivative of the reference is infinite or NaN everywhere at these inputs. Declare sample= with "
            "inputs where it is defined",
            None,
        )
    verdict = judge_where(defined, list(map(np.asarray, derivatives)), truth)
    return replace(verdict, reason=f"{verdict.reason}; {CURE}") if verdict.status is Status.WRONG_VALUE else verdict


def _with_slack(truth: Truth) -> Truth:
    def wider(expected: Expected) -> Expected:
        if expected.margin is None:
            return expected
        rounding = float(finfo(expected.dtype).eps) / 2 * np.nan_to_num(np.abs(expected.value), posinf=0)
        # A derivative that no order of sums and products rounds must be exact.
        wide = SLACK * (expected.margin + rounding)
        return replace(expected, margin=np.where(np.asarray(expected.margin) == 0, 0, wide))

    return Truth(tuple(map(wider, truth.outputs)))


def cotangent_values(
    operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array], *, wide: bool = True
) -> list[Array]:
    """Returns the values of :func:`true_cotangents` as XLA computes them, in float64 or in the dtypes of the inputs."""
    arrays = [*inputs, *real_floats(cotangents)]
    with jax.enable_x64(True) if wide else precision(*(array.dtype for array in inputs)):
        return list(map(np.asarray, _pulled(operator, len(inputs))(*(map(_wide, arrays) if wide else arrays))))


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if kind_of(array.dtype) == "f" else array


@functools.lru_cache(maxsize=64)
def _pulled(operator: Operator, count: int) -> Callable[..., list[jax.Array]]:
    """The pullback of the reference as a function of ``count`` inputs and the cotangents of outputs of floats."""

    def pulled(*arrays: Any) -> list[jax.Array]:
        function, floats = between_floats(operator, arrays[:count])
        outs, vjp = jax.vjp(function, *floats)
        return list(vjp([each.astype(out.dtype) for each, out in zip(arrays[count:], outs, strict=True)]))

    return jax.jit(pulled)  # operation by operation it would take a second


@functools.lru_cache(maxsize=64)
def _pushed(operator: Operator, count: int) -> Callable[..., list[jax.Array]]:
    """The pushforward of the reference as a function of the inputs and the tangents of inputs with a derivative."""

    def pushed(*arrays: Any) -> list[jax.Array]:
        function, floats = between_floats(operator, arrays[:count])
        return list(jax.jvp(function, floats, list(arrays[count:]))[1])

    return pushed


@functools.lru_cache(maxsize=64)
def _pulled_twice(operator: Operator, count: int, outputs: int) -> Callable[..., list[jax.Array]]:
    """The pullback of :func:`_pulled` as a function of inputs, cotangents of ``outputs`` outputs, and directions."""
    once, first = _pulled(operator, count), count + outputs

    def pulled(*arrays: Any) -> list[jax.Array]:
        def call(*inputs: Any) -> list[jax.Array]:
            return once(*inputs, *arrays[count:first])

        function, floats = with_floats(call, operator, arrays[:count])
        return list(jax.vjp(function, *floats)[1](list(arrays[first:])))

    return pulled
