"""Checks the derivative of a kernel on inputs that break careless adjoints, and at sizes beyond one block."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.differentiable import DRAWN_GRADIENTS
from suites.checks.drawn.battery import filled, is_parameter
from suites.checks.drawn.decided import Judged, Undecided
from suites.checks.drawn.decided_gradients import gradient_battery, judged_gradient
from suites.checks.drawn.depth import depth
from suites.checks.drawn.many_sizes import MOST_WORK, work
from suites.checks.drawn.session_seed import seeds_of, session_seed
from suites.checks.drawn.shrinking import shrunk
from suites.checks.judging.blame import status_of
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.reasons import described, with_inputs
from suites.checks.pullback import pullback, require_derivative
from suites.checks.register import check
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import precision
from suites.numerics.verdict import Verdict

LARGER = ((4096,), (64, 4096, 2**16), (8, 64, 1024, 4096, 2**16, 2**20))
"""Nominal sizes of further derivatives, by the depth of the session: each is tried with up to a fifth more."""

LARGER_PATTERN = "zero to ten"


@check(
    "drawn grad",
    sees="adjoints that are wrong at zero, for large or equal values, or beyond the first thousands of elements",
    cells=DRAWN_GRADIENTS,
    order=235,
)
def test_gradient_of_drawn_inputs_is_right(case: Case, evidence: Evidence) -> None:
    programs: dict[Any, Any] = {}
    try:
        for cotangents, drawn in gradient_battery(case.operator, case.dtype, case.size):
            _require(case, evidence, programs, cotangents, drawn, f"pattern {drawn.name!r}")
        random = np.random.default_rng(seeds_of("gradients", case.operator.name))
        for base in LARGER[depth()]:
            size = base + int(random.integers(0, base // 5 + 1))
            if 4 * work(case.operator, case.dtype, size) > MOST_WORK[depth()]:
                continue
            sample = case.operator.sample(case.dtype, size, session_seed())
            names = [LARGER_PATTERN if _is_float(array, sample) else None for array in sample]
            for inputs in (sample, filled(case.operator, sample, names, random)):
                where = f"size {size} (seed {session_seed()})"
                _require(case, evidence, programs, *judged_gradient(case.operator, where, inputs), where)
    except Undecided as reason:
        evidence.fail(Status.UNCHECKED, str(reason))


def _is_float(array: Array, inputs: Inputs) -> bool:
    return array.dtype.kind == "f" and not is_parameter(array, inputs)


def _require(
    case: Case, evidence: Evidence, programs: dict[Any, Any], cotangents: Sequence[Any], drawn: Judged, where: str
) -> None:
    verdict = _judge(case, programs, cotangents, drawn)
    if verdict.status is Status.WRONG_VALUE:

        def again(inputs: Inputs) -> Verdict:
            return _judge(case, programs, *judged_gradient(case.operator, drawn.name, inputs))

        inputs, verdict = shrunk(case.operator, drawn.inputs, verdict, again)
        verdict = with_inputs(verdict, case.operator, inputs)
    require_derivative(evidence, case, verdict, f"derivative, {where}")


def _judge(case: Case, programs: dict[Any, Any], cotangents: Sequence[Any], drawn: Judged) -> Verdict:
    inputs = drawn.inputs
    key = tuple(array.shape for array in inputs)
    with precision(case.dtype), jax.default_device(case.device):
        try:
            if key not in programs:
                function = jax.jit(pullback(case.operator.build(case.backend, inputs), case.operator))
                programs[key] = function.lower(inputs, cotangents).compile()
            _, found = programs[key](jax.device_put(inputs), jax.device_put(cotangents))
            results = [np.asarray(each) for each in found]
        except Exception as error:
            return Verdict(status_of(error), described(error), None)
    return drawn.judge(results)
