"""Checks that an operator refuses invalid inputs with the error that it declares."""

import jax
import pytest

from reports import Status
from suites.cells.case import Case
from suites.cells.tables import ERROR_CASES
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check("errors", sees="bad inputs that are accepted", cells=ERROR_CASES)
def test_bad_inputs_are_refused_in_the_operators_own_words(case: Case, evidence: Evidence) -> None:
    inputs, failure = case.error.arrays(), case.error.failures[case.backend]
    try:
        with case.placed(), pytest.raises(failure.exception, match=failure.message):
            jax.block_until_ready(case.build(inputs)(*map(jax.device_put, inputs)))
    except pytest.fail.Exception:
        evidence.fail(Status.WRONG_VALUE, f"not refused, expected {failure.exception.__name__}: {failure.message}")
    evidence.seen()
