"""Checks a kernel in a branch of ``jax.lax.cond``, both when the branch is taken and when it is not."""

import jax
import jax.numpy as jnp
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "cond",
    sees="a call in a branch that may not be taken: XLA may move it out, or share its buffers",
    cells=TRANSFORMED_KERNELS,
    order=130,
)
def test_branch_that_is_taken_is_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    outs = operator.outputs(*inputs)
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)

        def nothing(*arguments: jax.Array) -> list[jax.Array]:
            return [jnp.zeros(out.shape, out.dtype) for out in outs]

        def branches(wanted: jax.Array, *arguments: jax.Array) -> list[jax.Array]:
            found: list[jax.Array] = jax.lax.cond(wanted, lambda *taken: list(call(*taken)), nothing, *arguments)
            return found

        program = jax.jit(branches).lower(True, *inputs).compile()
        arguments = list(map(jax.device_put, inputs))
        taken, left = program(jnp.asarray(True), *arguments), program(jnp.asarray(False), *arguments)
    evidence.require_calls(program, case)
    evidence.require(judge_results(operator, inputs, taken))
    if any(np.any(leaf) for leaf in left):
        evidence.fail(Status.WRONG_VALUE, "the other branch returns zeros, but its result holds other values")
