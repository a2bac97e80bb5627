"""Checks each step of a kernel inside ``jax.lax.scan``, which compiles it once."""

from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision

STEPS = 3


@check("scan", sees="what one step leaves for the next", cells=TRANSFORMED_KERNELS, order=120)
def test_each_step_of_a_scan_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    steps = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(STEPS)]
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, steps[0])

        def scanned(*stacked: jax.Array) -> Any:
            return jax.lax.scan(lambda count, inputs: (count + 1, call(*inputs)), 0, stacked)

        stacked = [np.stack(column) for column in zip(*steps, strict=True)]
        program = jax.jit(scanned).lower(*stacked).compile()
        count, results = program(*map(jax.device_put, stacked))
    evidence.require_calls(program, case)
    if int(count) != STEPS:
        evidence.fail(Status.WRONG_VALUE, f"the carry counted {int(count)} steps, expected {STEPS}")
    for step, inputs in enumerate(steps):
        evidence.require(judge_results(operator, inputs, [leaf[step] for leaf in results]), f"step {step}")
