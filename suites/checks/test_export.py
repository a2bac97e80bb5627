"""Checks that a kernel gives the true result after export, serialisation and reading back in this process."""

import jax
from jax import export

import bridge
from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("export", sees="what a serialised program does not carry along", cells=TRANSFORMED_KERNELS, order=160)
def test_exported_program_is_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        call = jax.jit(operator.build(case.backend, inputs))
        exported = export.export(call, platforms=[case.platform], disabled_checks=bridge.export_checks())
        program = export.deserialize(exported(*inputs).serialize())
        results = program.call(*map(jax.device_put, inputs))
    evidence.require(judge_results(operator, inputs, results))
