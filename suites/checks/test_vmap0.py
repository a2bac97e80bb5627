"""Checks that ``jax.vmap`` over a batch without elements gives results without elements."""

import jax
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("vmap0", sees="batches without elements", cells=TRANSFORMED_KERNELS, order=110)
def test_batch_of_none_gives_results_of_none(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        call = case.operator.build(case.backend, inputs)
        empty = [np.zeros((0, *array.shape), array.dtype) for array in inputs]
        results = jax.vmap(call)(*empty)
    shapes, expected = ([leaf.shape for leaf in leaves] for leaves in (results, case.operator.outputs(*inputs)))
    evidence.seen()
    if shapes != [(0, *shape) for shape in expected]:
        evidence.fail(Status.WRONG_SHAPE, f"shapes {shapes}, expected a leading 0 before each of {expected}")
