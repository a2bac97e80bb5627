"""Checks that a compiled program calls the kernel, writes every element, and gives the true result."""

from suites.cells.case import Case
from suites.cells.tables.calls import SAMPLES
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check(
    "compiled",
    sees="elements never written, changed inputs, a program without the kernel; at every size and dtype",
    cells=SAMPLES,
    order=30,
)
def test_compiled_program_calls_the_kernel_and_writes_every_element_right(case: Case, evidence: Evidence) -> None:
    evidence.require(judge_kernel(case.operator, case.backend, case.inputs(), case.device), whole=True)
