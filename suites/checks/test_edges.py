"""Checks a kernel on the values and sizes that break careless kernels."""

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import EDGE_CASES
from suites.checks.drawn.decided import judged
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check("edges", sees="special values, empty inputs, degenerate structures", cells=EDGE_CASES, order=60)
def test_edge_case_is_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    if not operator.derives_truth:
        evidence.require(judge_kernel(operator, case.backend, inputs, case.device))
        return
    # A derived truth holds for special values only where every intermediate result is defined.
    special = judged(operator, str(case.variant), inputs)
    verdict = judge_kernel(operator, case.backend, inputs, case.device, by=special.judge)
    if verdict.status is Status.UNCHECKED and not special.share:
        evidence.seen()  # no element has one right value, but the kernel has written all, and nothing else
    else:
        evidence.require(verdict)
