"""Checks a kernel on the values and sizes that break careless kernels."""

from suites.cells.case import Case
from suites.cells.tables.calls import EDGE_CASES
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check("edges", sees="special values, empty inputs, degenerate structures", cells=EDGE_CASES, order=60)
def test_edge_case_is_right(case: Case, evidence: Evidence) -> None:
    evidence.require(judge_kernel(case.operator, case.backend, case.inputs(), case.device))
