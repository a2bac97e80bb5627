"""Checks the derivative of a derivative: it is right, or refused in words that a user understands."""

import jax
import numpy as np

from bridge import DifferentiationError
from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import BATCHED_GRADIENTS
from suites.checks.judging.derived_gradients import derived_second, judge_derivative
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents
from suites.checks.pullback import require_derivative, with_floats
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "grad grad",
    sees="second derivatives that are wrong, where they should be right or refused",
    cells=BATCHED_GRADIENTS,
    order=225,
)
def test_second_derivative_is_right_or_refused(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    random = np.random.default_rng([SEED, 3])  # another stream than inputs and cotangents
    moving = [inputs[index] for index in operator.differentiated(inputs)]
    directions = [np.asarray(random.standard_normal(array.shape)).astype(array.dtype) for array in moving]
    with precision(case.dtype), jax.default_device(case.device):
        function, floats = with_floats(operator.build(case.backend, inputs), operator, inputs)

        def first(*floats: jax.Array) -> list[jax.Array]:
            return list(jax.vjp(function, *floats)[1](cotangents))

        def second(*floats: jax.Array) -> list[jax.Array]:
            return list(jax.vjp(first, *floats)[1](directions))

        try:
            found = jax.jit(second)(*map(jax.device_put, floats))
        except DifferentiationError:
            evidence.seen()  # it says which kernel has no second derivative, and what to do
            return
    truth = derived_second(operator, inputs, cotangents, directions)
    require_derivative(evidence, case, judge_derivative(operator, [np.asarray(each) for each in found], truth))
