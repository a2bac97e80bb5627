"""The error bounds of gradients are neither too tight to hold nor too wide to mean anything."""

import jax
import numpy as np
import pytest

from reports import Status
from suites.checks.judging.gradients import judge_derivative, pullback, random_cotangents, true_cotangents
from suites.declare.operator import Operator
from suites.numerics.verdict import judge
from suites.ops import operators
from suites.unit.suites.ops_small import cube

DIFFERENTIABLE = {name: operator for name, operator in operators().items() if operator.gradient is not None}
OPERATORS = pytest.mark.parametrize("operator", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)


def _sample(operator, size=13):
    inputs = operator.sample("float32", size, 0)
    return inputs, random_cotangents(operator, inputs, 1)


@OPERATORS
@pytest.mark.parametrize("factor", [0, 0.999, 1.001, -1])
def test_gradient_that_is_off_by_a_factor_is_refused(operator, factor):
    inputs, cotangents = _sample(operator, (operator.gradient.sizes or (257,))[0])
    truth = true_cotangents(operator, inputs, cotangents)
    right = [each.value.astype(np.float32) for each in truth.outputs]
    assert judge(right, truth).status is Status.PASSED
    for place, each in enumerate(right):
        if not each.any():  # constant in this input: its factor says nothing
            continue
        wrong = [np.float32(factor) * other if other is each else other for other in right]
        assert judge(wrong, truth).status is Status.WRONG_VALUE, f"input {operator.differentiated(inputs)[place]}"


def test_a_sample_may_be_made_by_jax():
    def sample(dtype, size, seed):
        return jax.random.normal(jax.random.key(seed), (size,), dtype)

    operator = Operator(name="cube", reference=lambda x: x**3, kernels={"numba": cube}, sample=sample)
    inputs, cotangents = _sample(operator)
    _, (found,) = jax.jit(pullback(operator.reference, operator))(inputs, cotangents)
    assert judge_derivative([found], true_cotangents(operator, inputs, cotangents)).status is Status.PASSED
