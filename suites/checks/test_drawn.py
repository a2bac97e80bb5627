"""Checks a kernel on inputs that break careless kernels: named patterns, and inputs that Hypothesis draws."""

from typing import Any

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.drawn.decided import Undecided
from suites.checks.drawn.depth import depth
from suites.checks.drawn.drawing import for_drawn
from suites.checks.drawn.drawn_arrays import samples
from suites.checks.drawn.drawn_verdict import judge_battery, judge_drawn
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check

SIZES = ((33,), (33, 1031), (33, 7, 1031, 2100))
"""Nominal sizes of the patterns, by the depth of the session."""


@check(
    "drawn",
    sees="special values, both zeros, extremes, ties, ordered and adversarial inputs, in all inputs or in one alone",
    cells=TRANSFORMED_KERNELS,
    order=70,
)
def test_drawn_inputs_are_right(case: Case, evidence: Evidence) -> None:
    operator, device = case.operator, case.device
    try:
        for size in SIZES[depth()]:
            for name, verdict in judge_battery(operator, case.backend, case.dtype, size, device):
                evidence.require(verdict, f"pattern {name!r}")

        def each(data: Any) -> None:
            inputs = data.draw(samples(operator, [case.dtype]))
            evidence.require(judge_drawn(operator, case.backend, inputs, device))

        for_drawn(each)
    except Undecided as reason:
        evidence.fail(Status.UNCHECKED, str(reason))
