"""Checks a kernel under ``jax.vmap`` with axes, nesting and shared operands that Hypothesis draws."""

import itertools
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.batches import DRAWN_BATCHES
from suites.checks.drawn.decided import Undecided, judged
from suites.checks.drawn.drawing import for_drawn
from suites.checks.drawn.drawn_batches import batches
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.reasons import with_inputs
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "drawn vmap",
    sees="axes, nesting and shared operands of batches in any combination, which vmap has five of; drawn values",
    cells=DRAWN_BATCHES,
    order=90,
)
def test_drawn_batch_is_right(case: Case, evidence: Evidence) -> None:
    operator, backend = case.operator, case.backend

    def each(data: Any) -> None:
        batch = data.draw(batches(operator, case.dtype, case.size))
        elements = itertools.product(*(range(level.extent) for level in batch.levels))
        with precision(case.dtype), jax.default_device(case.device):
            call = batch.apply(operator.build(backend, next(iter(batch.elements.values()))))
            program = jax.jit(call).lower(*batch.operands).compile()
            results = [np.asarray(leaf) for leaf in program(*map(jax.device_put, batch.operands))]
        evidence.require_calls(program, case)
        for index in elements:
            found = [batch.element(leaf, index) for leaf in results]
            drawn = judged(operator, "batch", batch.elements[index])
            verdict = with_inputs(drawn.judge(found), operator, drawn.inputs)
            evidence.require(verdict, f"element {index} of {batch.levels}")

    try:
        for_drawn(each, share=5)  # each example compiles a program
    except Undecided as reason:
        evidence.fail(Status.UNCHECKED, str(reason))
