"""Checks the compiled derivative of a kernel, which its adjoint kernel must compute."""

import jax

from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import GRADIENTS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents
from suites.checks.pullback import judge_cotangents, pullback, require_derivative
from suites.checks.register import check
from suites.numerics.precision import precision


@check("grad", sees="the derivative at every size and dtype", cells=GRADIENTS, order=190)
def test_compiled_gradient_is_right_and_made_by_the_adjoint_kernel(case: Case, evidence: Evidence) -> None:
    operator, backend, inputs = case.operator, case.backend, case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    with precision(case.dtype), jax.default_device(case.device):
        function = jax.jit(pullback(operator.build(backend, inputs), operator))
        program = function.lower(inputs, cotangents).compile()
        outs, found = program(jax.device_put(inputs), jax.device_put(cotangents))
    evidence.require_calls(program, case, times=2)  # each kernel and its adjoint
    evidence.require(judge_results(operator, inputs, outs), "value", whole=True)
    verdict = judge_cotangents(operator, inputs, cotangents, found)
    require_derivative(evidence, case, verdict, "derivative", whole=True)
