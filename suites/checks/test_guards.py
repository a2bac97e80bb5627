"""Checks that a kernel stays inside its arrays, in a batch and in its derivative too.

Every check that judges a compiled call of a kernel on the CPU also runs it between guard pages, see
:func:`suites.checks.judging.cell_verdict.judge_kernel`. This one adds the programs that XLA makes of ``jax.vmap`` and
of a derivative. It also says where there are no guards.
"""

from typing import Any

import jax
import numpy as np
import pytest

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import random_cotangents
from suites.checks.judging.guarded_runs import run_guarded, why_unguarded
from suites.checks.pullback import pullback
from suites.checks.register import check
from suites.numerics.precision import precision

EXTENT = 3


@check(
    "guards",
    sees="accesses outside of arrays: here in batches and derivatives, and in every check of a compiled call",
    cells=TRANSFORMED_KERNELS,
    order=35,
)
def test_batch_and_derivative_stay_inside_their_arrays(case: Case, evidence: Evidence) -> None:
    missing = why_unguarded(case.backend, case.platform)
    if missing:
        pytest.skip(missing)
    operator, inputs = case.operator, case.inputs()
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        _require_inside(evidence, "batch", jax.vmap(call), [np.stack(column) for column in zip(*elements, strict=True)])
        if case.has_gradient:
            both = [inputs, random_cotangents(operator, inputs, SEED)]
            _require_inside(evidence, "derivative", pullback(call, operator), both)


def _require_inside(evidence: Evidence, where: str, function: Any, operands: Any) -> None:
    program = jax.jit(function).lower(*operands).compile()
    arguments = jax.device_put(operands)
    guarded = run_guarded(lambda number: jax.block_until_ready(program(*arguments)))
    if guarded.fault is not None:
        evidence.require(guarded.fault, where)
    if not guarded.calls:
        evidence.require(guarded.unseen, where)
    evidence.seen()
