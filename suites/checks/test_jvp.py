"""Checks the derivative of a kernel in forward mode, and its linear part as ``jax.linearize`` makes it."""

import jax
import numpy as np

from suites.cells.case import SEED, Case
from suites.cells.tables.differentiable import TANGENTS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.checks.tangents import judge_tangents, random_tangents, real_outputs, with_inputs_of
from suites.numerics.precision import precision


@check(
    "jvp",
    sees="derivatives in forward mode that are wrong, or do not agree with reverse mode",
    cells=TANGENTS,
    order=232,
)
def test_tangents_are_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    tangents = random_tangents(operator, inputs, SEED)
    with precision(case.dtype), jax.default_device(case.device):
        function, floats = with_inputs_of(operator.build(case.backend, inputs), operator, inputs)
        program = jax.jit(lambda floats, tangents: jax.jvp(function, floats, tangents))
        outs, pushed = program(list(map(jax.device_put, floats)), list(map(jax.device_put, tangents)))
        linear_outs, linear = jax.linearize(function, *map(jax.device_put, floats))
        linearized = linear(*map(jax.device_put, tangents))
    for results, where in ((outs, "value"), (linear_outs, "value of linearize")):
        evidence.require(judge_results(operator, inputs, results), where)
    for found, where in ((pushed, "tangent"), (linearized, "tangent of linearize")):
        real = [np.asarray(found[index]) for index in real_outputs(operator, inputs)]
        evidence.require(judge_tangents(operator, inputs, tangents, real), where)
