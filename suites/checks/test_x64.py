"""Checks that a kernel of 32 bits stays right with JAX's x64 mode on; cells of 64 bits have the mode on everywhere."""

import jax

from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check("x64", sees="dtypes that follow JAX's x64 mode", cells=TRANSFORMED_KERNELS, order=170)
def test_the_other_precision_mode_changes_nothing(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    with jax.enable_x64(True), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        arguments = list(map(jax.device_put, inputs))
        eager, compiled = call(*arguments), jax.jit(call)(*arguments)
    evidence.require(judge_results(operator, inputs, eager), "eager")
    evidence.require(judge_results(operator, inputs, compiled), "compiled")
