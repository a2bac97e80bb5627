"""Checks the derivative of a kernel outside ``jax.jit``, and that integer inputs have none."""

import jax
import jax.numpy as jnp

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import LAST_GRADIENTS
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents
from suites.checks.pullback import differentiable, judge_cotangents
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "grad eager",
    sees="the derivative outside jit, changed inputs, and cotangents of integers",
    cells=LAST_GRADIENTS,
    order=200,
)
def test_eager_gradient_is_right_and_integers_have_none(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    before = fingerprint(inputs)
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        _, vjp = jax.vjp(call, *map(jax.device_put, inputs))
        found = vjp([jnp.asarray(each) for each in cotangents])
    floats = [found[index] for index in differentiable(operator)]
    evidence.require(judge_cotangents(operator, inputs, cotangents, floats))
    if fingerprint(inputs) != before:
        evidence.fail(Status.INPUT_MUTATED, "an input has other bits after its derivative was taken than before")
    for index in set(range(len(inputs))) - set(differentiable(operator)):
        if found[index].dtype != jax.dtypes.float0 or found[index].shape != inputs[index].shape:
            reason = f"input {index} has a cotangent of {found[index].dtype}{found[index].shape}, expected float0"
            evidence.fail(Status.WRONG_DTYPE, f"{reason}{inputs[index].shape}")
