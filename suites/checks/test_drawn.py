"""Checks a kernel on inputs that Hypothesis draws."""

from typing import Any

from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.drawing import for_drawn
from suites.checks.register import check
from suites.inputs.drawn_arrays import samples
from suites.judging.cell_verdict import judge_kernel
from suites.judging.evidence import Evidence


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
