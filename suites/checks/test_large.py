"""Checks that a compiled kernel is right on inputs that take several threads, blocks and passes."""

import functools

import numpy as np

from suites.backends.backend import Backend
from suites.cells import repeated_inputs
from suites.cells.case import SEED, Case, sample
from suites.cells.tables.calls import LARGE_SAMPLES
from suites.checks.drawn.depth import DEEP, depth
from suites.checks.drawn.many_sizes import large_sizes
from suites.checks.drawn.session_seed import session_seed
from suites.checks.drawn.vast import vast_size
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.declare.operator import Operator
from suites.numerics.error_model import Truth
from suites.numerics.verdict import judge


@check(
    "large",
    sees="parallel parts, second passes and capped grids, which small inputs never reach; indices of 16 to 22 bits",
    cells=LARGE_SAMPLES,
    order=40,
)
def test_large_inputs_are_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    evidence.require(judge_kernel(operator, case.backend, case.inputs(), case.device), whole=True)
    is_tried = case.in_first_dtype or depth() == DEEP
    if case.backend is Backend.JNP or not is_tried or case.size != operator.sizes.large:
        return
    for size in large_sizes(operator, case.dtype, depth()):
        inputs = sample(operator, case.dtype, size, SEED)
        by = None
        if not repeated_inputs.repeats(operator, size):
            by = functools.partial(judge, truth=_truth(operator, case.dtype, size))
        verdict = judge_kernel(operator, case.backend, inputs, case.device, by=by)
        evidence.require(verdict, f"size {size} (seed {session_seed()})")
    vast = vast_size(operator, case.dtype, case.device) if depth() == DEEP else None
    if vast is not None:
        inputs = repeated_inputs.sample(operator, case.dtype, vast, SEED)
        evidence.require(judge_kernel(operator, case.backend, inputs, case.device), f"size {vast}")


@functools.lru_cache(maxsize=6)  # the sizes of a full session, which each backend takes in turn
def _truth(operator: Operator, dtype: str, size: int) -> Truth:
    """The truth of a large sample, computed once for all backends."""
    with np.errstate(all="ignore"):
        return operator.truth(*sample(operator, dtype, size, SEED))
