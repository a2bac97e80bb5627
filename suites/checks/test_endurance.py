"""Checks that tens of thousands of calls of a kernel on a few small inputs all give the results of the first ones."""

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.call_loops import calls_in, prepare
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision

SETS = 3
"""Inputs that are taken in turn."""

MOST = 70_000
"""The most calls: a counter of 16 bits overflows."""

SECONDS = 0.25
"""The most time that they take."""


@check(
    "endurance",
    sees="results that change after many calls, such as when a counter overflows or memory is used up",
    cells=TRANSFORMED_KERNELS,
    order=25,
)
def test_results_stay_the_same_for_thousands_of_calls(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    sets = [operator.sample(case.dtype, case.size, SEED + turn) for turn in range(SETS)]
    with precision(case.dtype), jax.default_device(case.device):
        loop = prepare(case, sets, case.device)
        for turn, inputs in enumerate(sets):
            alone = [np.asarray(leaf[turn]) for leaf in loop.expected]
            evidence.require(judge_results(operator, inputs, alone), f"call {turn}")
        count = calls_in(loop, SECONDS, most=MOST)
        turns = loop.turns(count)
    if turns.differing:
        where = f"call {turns.first} of {count}"
        evidence.require(judge_results(operator, sets[turns.first % SETS], turns.results), where)
        evidence.fail(
            Status.NONDETERMINISTIC, f"{where}: another result than the first ({turns.differing} of these calls)"
        )
