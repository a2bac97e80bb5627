"""Checks batches of tangents at one point, as ``jax.jacfwd`` pushes them, and at several."""

import jax
import numpy as np

from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import BATCHED_TANGENTS
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.checks.tangents import judge_tangents, random_tangents, real_outputs, with_inputs_of
from suites.numerics.precision import precision

EXTENT = 3


@check(
    "jvp vmap",
    sees="batches of derivatives in forward mode, of one point (jacfwd) and of several",
    cells=BATCHED_TANGENTS,
    order=234,
)
def test_batches_of_tangents_are_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]
    tangents = [random_tangents(operator, inputs, SEED + seed) for seed in range(EXTENT)]
    stacked = [np.stack(column) for column in zip(*tangents, strict=True)]
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)

        def pushed(arrays: list[jax.Array], given: list[jax.Array]) -> list[jax.Array]:
            function, floats = with_inputs_of(call, operator, arrays)
            found = jax.jvp(function, floats, given)[1]
            return [found[index] for index in real_outputs(operator, inputs)]

        at_one = jax.jit(jax.vmap(pushed, in_axes=(None, 0)))(list(inputs), stacked)
        points = [np.stack(column) for column in zip(*elements, strict=True)]
        at_each = jax.jit(jax.vmap(pushed))(points, stacked)
    for index, (own, given) in enumerate(zip(elements, tangents, strict=True)):
        for point, found, where in ((inputs, at_one, "of one point"), (own, at_each, "of its own point")):
            leaves = [np.asarray(leaf[index]) for leaf in found]
            evidence.require(judge_tangents(operator, point, given, leaves), f"tangent {index} {where}")
