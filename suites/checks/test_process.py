"""Checks that a kernel from a user's file gives the same results in a process where no test runs."""

from typing import Any

from reports import Status
from suites.cells import catalogue
from suites.cells.case import SEED, Case
from suites.cells.cell_table import Table
from suites.cells.tables.calls import kernels
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.other_process import OtherProcessError, run_elsewhere
from suites.checks.register import check

OTHER_SEED = SEED + 7919
"""Seed of inputs that no other check has."""


def kernels_of_files(platform: str) -> list[Any]:
    """Returns every kernel once, from files and modules that the user names; the built-in operators look nowhere."""
    return kernels(platform) if catalogue.sources() else []


@check(
    "process",
    sees="kernels that find out that they are tested, from variables, modules, threads or earlier calls",
    cells=Table(cells=kernels_of_files),
    order=155,
)
def test_results_are_right_in_a_process_without_tests(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    sets = [operator.sample(case.dtype, size, OTHER_SEED) for size in (case.size, operator.sizes.check[-1] + 1)]
    try:
        results = run_elsewhere(case, catalogue.sources(), sets)
    except OtherProcessError as error:
        evidence.fail(Status.RUNTIME_ERROR, f"in a process without tests: {error}")
    for number, result in enumerate(results):
        how = "compiled" if number % 2 else "eager"
        evidence.require(judge_results(operator, sets[number // 2], result), f"in a process without tests, {how}")
