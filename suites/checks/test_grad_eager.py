"""Checks the derivative of a kernel outside ``jax.jit``, and that integer inputs have none."""

import jax
import jax.numpy as jnp

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import LAST_GRADIENTS
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents
from suites.checks.pullback import judge_cotangents, require_derivative
from suites.checks.register import check
from suites.declare.differentiation import function_of
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
    indices = operator.differentiated(inputs)
    integers = [index for index, array in enumerate(inputs) if array.dtype.kind != "f"]
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        # An operator may have a derivative along some of its floats alone; integers are no obstacle.
        function, moving = function_of(call, list(map(jax.device_put, inputs)), [*indices, *integers])
        _, vjp = jax.vjp(function, *moving)
        found = vjp([jnp.asarray(each) for each in cotangents])
    require_derivative(evidence, case, judge_cotangents(operator, inputs, cotangents, found[: len(indices)]))
    if fingerprint(inputs) != before:
        evidence.fail(Status.INPUT_MUTATED, "an input has other bits after its derivative was taken than before")
    for index, cotangent in zip(integers, found[len(indices) :], strict=True):
        if cotangent.dtype != jax.dtypes.float0 or cotangent.shape != inputs[index].shape:
            reason = f"input {index} has a cotangent of {cotangent.dtype}{cotangent.shape}, expected float0"
            evidence.fail(Status.WRONG_DTYPE, f"{reason}{inputs[index].shape}")
