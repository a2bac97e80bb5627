"""A check that judged nothing, or could not begin, is UNCHECKED: it has not passed, and says nothing of the kernel."""

from __future__ import annotations

import pytest

from reports import Status, find_run, read_run
from suites.checks.folders import VARIABLE
from suites.checks.judging.evidence import CheckFailed, Evidence
from suites.checks.judging.exception_status import outcome
from suites.checks.judging.reasons import described
from suites.numerics.verdict import Verdict
from suites.unit import processes

CHECKS = """\
from suites.cells.tables.calls import KERNELS
from suites.checks.register import check


@check("{name}", sees="how checks end", cells=KERNELS)
def test_toy_{name}(case, {fixture}):
    {body}
"""
BODIES = {
    "idle": ("evidence", "case.operator.build(case.backend, case.inputs())"),
    "alone": ("tmp_path", "assert case.inputs()"),
    "misspelt": ("evidense", "evidense.seen()"),
    "seeing": ("evidence", "evidence.seen()"),
}


def test_evidence_counts_what_it_has_judged():
    evidence = Evidence()
    with pytest.raises(CheckFailed, match="UNCHECKED: the check ended without judging a result") as caught:
        evidence.finish()
    assert outcome(caught)[0] is Status.UNCHECKED
    evidence.require(Verdict(Status.PASSED, None, None))
    evidence.seen(2)
    evidence.finish()
    assert evidence._count == 3


def test_an_exception_is_described_with_the_backend_or_generator_that_raised_it():
    error = KeyError("lost")
    error.add_note("(raised by the numba generator of the operator clip)")
    error.add_note("For simplicity, JAX has removed its internal frames")
    assert described(error) == "KeyError: 'lost' (raised by the numba generator of the operator clip)"


def test_checks_that_judge_nothing_have_not_passed(tmp_path):
    folder = tmp_path / "checks"
    folder.mkdir()
    for name, (fixture, body) in BODIES.items():
        (folder / f"test_{name}.py").write_text(CHECKS.format(name=name, fixture=fixture, body=body))
    command = ["validate", "--operator", "relu", "--backend", "numba", "--profile", "quick", "--jobs", "0"]
    variables = {VARIABLE: str(folder), "KERNEL_BRIDGE_RUNS": str(tmp_path / "runs")}
    done = processes.run("-m", "suites", *command, "--", "-k", "toy", **variables)
    records = read_run(find_run("latest", tmp_path / "runs"))
    found = {record.cell.mode: (record.status, record.reason) for record in records}
    assert found.keys() == BODIES.keys(), done.stdout + done.stderr
    assert {name for name, (status, _) in found.items() if status is Status.UNCHECKED} == {"idle", "alone", "misspelt"}
    assert "ended without judging a result" in found["idle"][1]
    assert "asks for 'evidense', which pytest does not know" in found["misspelt"][1]
    assert found["seeing"][0] is Status.PASSED
    assert done.returncode != 0
