"""The error bounds of gradients are neither too tight to hold nor too wide to mean anything."""

import numpy as np
import pytest

from reports import Status
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.numerics.verdict import judge
from suites.ops import operators

DIFFERENTIABLE = {name: operator for name, operator in operators().items() if operator.gradient is not None}


@pytest.mark.parametrize("operator", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("factor", [0, 0.999, 1.001, -1])
def test_gradient_that_is_off_by_a_factor_is_refused(operator, factor):
    inputs = operator.sample("float32", (operator.gradient.sizes or (257,))[0], 0)
    cotangents = random_cotangents(operator, inputs, 1)
    truth = true_cotangents(operator, inputs, cotangents)
    right = [each.value.astype(np.float32) for each in truth.outputs]
    assert judge(right, truth).status is Status.PASSED
    for place, each in enumerate(right):
        if not each.any():  # constant in this input: its factor says nothing
            continue
        wrong = [np.float32(factor) * other if other is each else other for other in right]
        assert judge(wrong, truth).status is Status.WRONG_VALUE, f"input {operator.differentiated(inputs)[place]}"
