"""Takes and judges derivatives for the checks of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from suites.cells.case import SEED, Case
from suites.checks.judging.derived_gradients import CURE, judge_derivative
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.declare.differentiation import function_of
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict

Call = Callable[..., Any]

EXTENT = 3
"""Elements of a batch."""


def with_floats(call: Call, operator: Operator, inputs: Sequence[Any]) -> tuple[Call, list[Any]]:
    """Returns the call as a function of the inputs that have a derivative, and those inputs."""
    return function_of(call, inputs, operator.differentiated(inputs))


def pullback(call: Call, operator: Operator) -> Call:
    """Returns a function of inputs and output cotangents that returns the outputs and the input cotangents."""

    def function_of_both(inputs: Sequence[Any], cotangents: Any) -> Any:
        function, floats = with_floats(call, operator, inputs)
        outs, vjp = jax.vjp(function, *floats)
        return outs, vjp(cotangents)

    return function_of_both


def judge_cotangents(operator: Operator, inputs: Inputs, cotangents: Sequence[Any], found: Sequence[Any]) -> Verdict:
    """Judges the cotangents of the inputs that have a derivative."""
    truth = true_cotangents(operator, inputs, cotangents)
    return judge_derivative(operator, [np.asarray(each) for each in found], truth)


def require_derivative(
    evidence: Evidence, case: Case, verdict: Verdict, where: str = "", *, whole: bool = False
) -> None:
    """Requires that a verdict on derivatives is PASSED.

    A derivative that nobody declared, and that a compiler made from a right kernel, is not required to be right: it
    has the limits of the language. Then the check is skipped, and says so.
    """
    gradient = case.operator.gradient
    if gradient is not None and gradient.is_assumed and verdict.status.wrong and is_generated(case):
        pytest.skip(
            f"{case.backend.id} generates a wrong derivative, which counts only if one is declared: "
            "gradient=suites.Gradient() requires a right one, gradient=None says that there is none "
            f"({where or 'derivative'}: {str(verdict.reason).removesuffix(f'; {CURE}')})"
        )
    evidence.require(verdict, where, whole=whole)


def is_generated(case: Case) -> bool:
    """Tells whether a compiler made the derivative of a kernel, rather than its author."""
    inputs = case.operator.sample(case.dtype, case.operator.sizes.check[0], SEED)
    own = case.operator.kernel(case.backend).derivative(inputs, case.operator.outputs(*inputs))
    return own is not None and own.generated


def batch(case: Case) -> tuple[list[tuple[Inputs, list[Any]]], list[list[Any]]]:
    """Returns the inputs and cotangents of each element of a batch, and all of them stacked."""
    operator = case.operator
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]
    cotangents = [random_cotangents(operator, inputs, seed) for seed, inputs in enumerate(elements)]
    stacked = [[np.stack(column) for column in zip(*each, strict=True)] for each in (elements, cotangents)]
    return list(zip(elements, cotangents, strict=True)), stacked


def require_each(
    evidence: Evidence, case: Case, elements: list[tuple[Inputs, list[Any]]], found: Sequence[Any]
) -> None:
    """Requires that the cotangents of each element of a batch are right."""
    for index, (inputs, cotangents) in enumerate(elements):
        verdict = judge_cotangents(case.operator, inputs, cotangents, [leaf[index] for leaf in found])
        require_derivative(evidence, case, verdict, f"element {index}")
