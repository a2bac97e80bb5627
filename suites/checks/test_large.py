"""Checks that a compiled kernel is right on inputs that take several threads, blocks and passes."""

from suites.cells.case import Case
from suites.cells.tables.calls import LARGE_SAMPLES
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check("large", sees="parallel parts and second passes, which small inputs never reach", cells=LARGE_SAMPLES, order=40)
def test_large_inputs_are_right(case: Case, evidence: Evidence) -> None:
    evidence.require(judge_kernel(case.operator, case.backend, case.inputs(), case.device), whole=True)
