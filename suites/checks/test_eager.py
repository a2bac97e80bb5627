"""Checks that a kernel called outside ``jax.jit`` gives the true result and leaves its inputs alone."""

import jax

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import LAST_SAMPLES
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("eager", sees="the call outside jit, in every dtype", cells=LAST_SAMPLES, order=10)
def test_eager_call_is_right_and_leaves_inputs_alone(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    before = fingerprint(inputs)
    with precision(case.dtype), jax.default_device(case.device):
        results = case.operator.build(case.backend, inputs)(*map(jax.device_put, inputs))
    evidence.require(judge_results(case.operator, inputs, results))
    if fingerprint(inputs) != before:
        evidence.fail(Status.INPUT_MUTATED, "an input has other bits after the call than before")
