"""A check that judged nothing, or could not begin, is UNCHECKED: it has not passed, and says nothing of the kernel."""

from __future__ import annotations

import pytest

from reports import Status
from suites.checks.judging.evidence import CheckFailed, Evidence, outcome
from suites.checks.judging.reasons import described
from suites.numerics.verdict import Verdict


def test_evidence_counts_what_it_has_judged():
    evidence = Evidence()
    with pytest.raises(CheckFailed, match="UNCHECKED: the check ended without judging a result") as caught:
        evidence.finish()
    assert outcome(caught)[0] is Status.UNCHECKED
    evidence.require(Verdict(Status.PASSED, None, None))
    evidence.finish()


def test_an_exception_is_described_with_the_backend_or_generator_that_raised_it():
    error = KeyError("lost")
    error.add_note("(raised by the numba generator of the operator clip)")
    error.add_note("For simplicity, JAX has removed its internal frames")
    assert described(error) == "KeyError: 'lost' (raised by the numba generator of the operator clip)"
