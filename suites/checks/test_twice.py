"""Checks that several calls in one compiled program do not disturb each other."""

import jax

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("twice", sees="calls that disturb each other in one program", cells=TRANSFORMED_KERNELS, order=50)
def test_jit_around_several_calls_keeps_all(case: Case, evidence: Evidence) -> None:
    """Makes one call on the inputs, and one more for each input with only that input changed."""
    operator, inputs = case.operator, case.inputs()
    other = operator.sample(case.dtype, case.size, SEED + 1)
    variants = [inputs, *((*inputs[:i], other[i], *inputs[i + 1 :]) for i in range(len(inputs)))]
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        program = jax.jit(lambda variants: [call(*each) for each in variants]).lower(variants).compile()
        results = program(jax.device_put(variants))
    evidence.require_calls(program, case, times=len(variants))
    for number, (each, result) in enumerate(zip(variants, results, strict=True)):
        evidence.require(judge_results(operator, each, result), f"call {number}")
