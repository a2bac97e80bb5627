"""Checks the derivative of a kernel under ``jax.vmap``."""

import jax

from suites.cells.case import Case
from suites.cells.tables.differentiable import BATCHED_GRADIENTS
from suites.checks.judging.evidence import Evidence
from suites.checks.pullback import batch, pullback, require_each
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "grad vmap",
    sees="derivatives of a batched call: the adjoint of the rule, which vmap grad need not use",
    cells=BATCHED_GRADIENTS,
    order=220,
)
def test_gradient_of_a_batch_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    elements, (inputs, cotangents) = batch(case)
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, elements[0][0])
        _, found = jax.jit(pullback(jax.vmap(call), operator))(inputs, cotangents)
    require_each(evidence, case, elements, found)
