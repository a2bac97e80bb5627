"""Takes and judges derivatives in forward mode for the checks of tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suites.checks.judging.derived_gradients import derived_tangents, judge_derivative
from suites.declare.differentiation import function_of
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs
from suites.numerics.verdict import Verdict


def random_tangents(operator: Operator, inputs: Inputs, seed: int) -> list[Array]:
    """Returns normally distributed tangents of the inputs that have a derivative."""
    random = np.random.default_rng([seed, 2])  # another stream than inputs and cotangents
    moving = [inputs[index] for index in operator.differentiated(inputs)]
    return [np.asarray(random.standard_normal(array.shape)).astype(array.dtype) for array in moving]


def real_outputs(operator: Operator, inputs: Inputs) -> list[int]:
    """Returns the indices of the outputs of real floats; the others have tangents of no type."""
    outs = operator.outputs(*inputs)
    return [index for index, out in enumerate(outs) if np.dtype(out.dtype).kind == "f"]


def with_inputs_of(
    call: Callable[..., Any], operator: Operator, inputs: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the call as a function of the inputs that have a derivative, and those inputs."""
    return function_of(call, inputs, operator.differentiated(inputs))


def judge_tangents(operator: Operator, inputs: Inputs, tangents: list[Array], found: list[Array]) -> Verdict:
    """Judges the tangents of the outputs of real floats."""
    return judge_derivative(operator, found, derived_tangents(operator, inputs, tangents))
