"""Checks the derivative of a kernel against differences of its results, independent of the reference."""

import jax
from jax.test_util import check_grads

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.differentiable import SMALL_GRADIENTS
from suites.checks.judging.evidence import Evidence
from suites.checks.pullback import require_derivative, with_floats
from suites.checks.register import check
from suites.numerics.precision import precision
from suites.numerics.verdict import Verdict


@check("grad diff", sees="a reference whose own derivative is wrong", cells=SMALL_GRADIENTS, order=230)
def test_gradient_agrees_with_differences(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    with precision("float64"), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        function, floats = with_floats(call, operator, list(map(jax.device_put, inputs)))
        try:
            check_grads(jax.jit(function), tuple(floats), order=1, modes=("rev",))
        except AssertionError as difference:
            require_derivative(evidence, case, Verdict(Status.WRONG_VALUE, str(difference), None))
    evidence.seen()
