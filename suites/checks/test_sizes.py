"""Checks a kernel at many sizes: powers of two, multiples of blocks, their neighbours, and random ones."""

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import KERNELS
from suites.checks.drawn.depth import depth
from suites.checks.drawn.many_sizes import small_sizes
from suites.checks.drawn.session_seed import session_seed
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check(
    "sizes",
    sees="errors at some sizes alone: powers of two, multiples of 8 or of a block, one more or less, random ones",
    cells=KERNELS,
    order=35,
)
def test_every_size_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    for size in small_sizes(operator.name, depth()):
        inputs = operator.sample(case.dtype, size, SEED)
        verdict = judge_kernel(operator, case.backend, inputs, case.device)
        evidence.require(verdict, f"size {size} (seed {session_seed()})")
