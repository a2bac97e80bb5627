"""Checks a kernel on inputs that Hypothesis draws."""

from typing import Any

from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.drawn.drawing import for_drawn
from suites.checks.drawn.drawn_arrays import samples
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check(
    "drawn",
    sees="inputs that nobody thought of; other ones each time in the long profile",
    cells=TRANSFORMED_KERNELS,
    order=70,
)
def test_drawn_inputs_are_right(case: Case, evidence: Evidence) -> None:
    def each(data: Any) -> None:
        inputs = data.draw(samples(case.operator, [case.dtype]))
        evidence.require(judge_kernel(case.operator, case.backend, inputs, case.device))

    for_drawn(each)
