"""Checks that an operator refuses inputs that make no sense, with the error that it declares."""

import jax
import pytest

from suites.cells.case import Case
from suites.cells.tables.calls import ERROR_CASES
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("errors", sees="bad inputs that are taken as good ones", cells=ERROR_CASES, order=240)
def test_bad_inputs_are_refused_in_the_operators_own_words(case: Case, evidence: Evidence) -> None:
    operator, backend, error = case.operator, case.backend, case.error
    inputs = error.inputs()
    failure = error.failures[backend]
    with (
        precision(case.dtype),
        jax.default_device(case.device),
        pytest.raises(failure.exception, match=failure.message),
    ):
        jax.block_until_ready(operator.build(backend, inputs)(*map(jax.device_put, inputs)))
    evidence.seen()
