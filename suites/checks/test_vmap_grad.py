"""Checks ``jax.vmap`` over the derivative of a kernel."""

import jax

from suites.cells.case import Case
from suites.cells.tables.differentiable import BATCHED_GRADIENTS
from suites.checks.judging.evidence import Evidence
from suites.checks.pullback import batch, pullback, require_each
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "vmap grad",
    sees="batches of derivatives: the rule of the adjoint, which grad vmap need not use",
    cells=BATCHED_GRADIENTS,
    order=210,
)
def test_batch_of_gradients_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    elements, (inputs, cotangents) = batch(case)
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, elements[0][0])
        _, found = jax.jit(jax.vmap(pullback(call, operator)))(inputs, cotangents)
    require_each(evidence, case, elements, found)
