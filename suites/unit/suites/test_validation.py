"""A validation session records every way in which a cell can end, and goes on after those that end the process."""

import fcntl
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest

from reports import Status, find_run, load_run
from reports.records.store import RUNS_VARIABLE
from suites.checks.judging.evidence import CheckFailed, Evidence, outcome
from suites.numerics.verdict import ResultVerdict
from suites.unit.suites import test_toy_backend

OUTSIDE = Path(__file__).with_name("ops_outside.py")
PROJECT = Path(__file__).parents[3]
ENDED = "ended.json"
"""The file with the exit code and the output of the command."""


def _example():
    """The operator in the README."""
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "OPERATOR = Operator(" in block)
    return block


@pytest.fixture(scope="module")
def outside(tmp_path_factory, worker_id):
    """A validation of operators from another folder: exit code, output, records, Markdown, JUnit's XML.

    It takes long, so the workers of pytest-xdist share one.
    """
    if worker_id == "master":
        folder = tmp_path_factory.mktemp("validation")
        _validate_once(folder)
    else:
        folder = tmp_path_factory.getbasetemp().parent / "validation"
        folder.mkdir(exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _validate_once(folder)
    code, output = json.loads((folder / ENDED).read_text(encoding="utf-8"))
    return SimpleNamespace(
        code=code,
        output=output,
        records=load_run(find_run("latest", folder / "runs")).records,
        summary=(folder / "summary.md").read_text(encoding="utf-8"),
        cases=ElementTree.parse(folder / "junit.xml").getroot().findall(".//testcase"),
    )


def _validate_once(folder):
    """Runs the command in this folder, unless another process has done so: then there is a file :data:`ENDED`."""
    if (folder / ENDED).exists():
        return
    summary, junit = folder / "summary.md", folder / "junit.xml"
    (folder / "my_ops.py").write_text(_example(), encoding="utf-8")
    (folder / "formula_language.py").write_text(test_toy_backend.LANGUAGE, encoding="utf-8")
    (folder / "formulas.py").write_text(test_toy_backend.OPERATORS, encoding="utf-8")
    sources = ["my_ops.py", "formulas.py", str(OUTSIDE)]
    command = [sys.executable, "-m", "suites", "validate", *sources, "--jobs", "2", "--timeout", "8"]
    command += ["--backend", "numba", "--backend", "formula", "--summary", str(summary)]
    command += ["--profile", "quick", "--", f"--junitxml={junit}"]
    own = "cube- and (compiled or drawn or grad)"
    others = "(cube_wrong or polynomial or difference) and compiled"
    command += ["-k", f"({own}) or ({others}) or (cube_worse and (crashes or hangs or concurrent))"]
    # The folder of this project stays importable where it is not installed.
    paths = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, RUNS_VARIABLE: "runs"}
    ended = [None, "it took too long"]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=540)
        ended = [done.returncode, done.stdout + done.stderr]
    finally:
        (folder / ENDED).write_text(json.dumps(ended), encoding="utf-8")  # or other workers would try it again


def _statuses(outside, operator, mode=None):
    return {r.status for r in outside.records if r.cell.operator == operator and mode in (None, r.cell.mode)}


def test_a_wrong_operator_makes_the_command_fail(outside):
    assert outside.code == 1, outside.output


def test_it_ends_with_a_line_for_each_verdict_the_wrong_ones_last(outside):
    lines = [line for line in outside.output.splitlines() if not line.startswith("kernel-bridge: ")]
    passed = lines.index(next(line for line in lines if line.startswith("cube PASSED: numba (")))
    (wrong,) = (index for index, line in enumerate(lines) if line.startswith("cube_wrong numba "))
    assert passed < wrong < len(lines) - 1
    assert "is wrong: " in lines[wrong]
    assert " validate my_ops.py " in lines[wrong]
    assert re.match(r"5 kernels: 2 passed, 3 wrong\. Repeat: kernel-bridge validate my_ops\.py .*--seed \d+", lines[-1])
    assert "Fatal Python error" not in outside.output
    assert "+ Timeout +" not in outside.output


def test_the_example_of_the_readme_is_right(outside):
    assert _statuses(outside, "cube") == {Status.PASSED, Status.SKIPPED}
    skips = {r.reason for r in outside.records if r.cell.operator == "cube" and r.status is Status.SKIPPED}
    assert skips == {"numba kernels have no derivative of their own (def_vjp gives an operator one)"}


def test_each_cell_ends_as_what_it_is(outside):
    assert _statuses(outside, "cube_wrong", "compiled") == {Status.WRONG_VALUE}
    assert {r.status for r in outside.records if r.cell.params == {"case": "crashes"}} == {Status.CRASHED}
    assert {r.status for r in outside.records if r.cell.params == {"case": "hangs"}} == {Status.TIMEOUT}


def test_kernels_of_a_users_language_are_judged(outside):
    found = {(r.cell.operator, r.status) for r in outside.records if r.cell.backend == "formula"}
    assert {("polynomial", Status.PASSED), ("difference", Status.WRONG_VALUE)} <= found
    assert ("polynomial", Status.WRONG_VALUE) not in found


def test_the_rest_goes_on_after_a_crash_and_each_cell_is_recorded_once(outside):
    assert _statuses(outside, "cube_worse", "threads") == {Status.PASSED}
    keys = [record.cell.key for record in outside.records]
    assert len(keys) == len(set(keys))
    modes = {record.cell.mode for record in outside.records if record.cell.operator == "cube"}
    assert modes >= {"compiled", "drawn"}


def test_evidence_is_recorded_with_the_verdict(outside):
    wanted = ("cube", "compiled", "float32", 2100)
    (compiled,) = (r for r in outside.records if (r.cell.operator, r.cell.mode, r.cell.dtype, r.cell.size) == wanted)
    assert 0 < compiled.accuracy.budget_used <= 1
    assert (compiled.shapes, compiled.dtypes) == ([[2100]], ["float32"])
    wrong = next(r for r in outside.records if (r.cell.operator, r.cell.mode) == ("cube_wrong", "compiled"))
    assert wrong.accuracy.budget_used > 1
    assert "outside the error bound" in wrong.reason


def test_grid_summary_and_junit_show_the_same(outside):
    assert "Validation on cpu" in outside.output
    assert "### Validation on cpu" in outside.summary
    assert all(word in outside.output for word in ("cube_wrong", "WRONG_VALUE"))
    assert all(word in outside.summary for word in ("cube_wrong", "WRONG_VALUE", "CRASHED", "TIMEOUT"))
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in outside.cases)
    assert failed == sum(record.status.failed for record in outside.records)
    assert len(outside.cases) == len(outside.records)


def test_evidence_keeps_the_worst_accuracy_and_raises_what_is_wrong():
    from reports import Accuracy

    evidence = Evidence()
    for used in (0.25, 0.75, 0.5):
        evidence.require(ResultVerdict(Status.PASSED, None, Accuracy(budget_used=used)))
    assert evidence.accuracy is not None
    assert evidence.accuracy.budget_used == 0.75
    with pytest.raises(CheckFailed, match="WRONG_VALUE: element 2: too large") as caught:
        evidence.require(ResultVerdict(Status.WRONG_VALUE, "too large", Accuracy(budget_used=3.0)), "element 2")
    assert outcome(caught) == (Status.WRONG_VALUE, "element 2: too large")
    assert evidence.accuracy.budget_used == 3.0


def test_evidence_of_elements_without_a_bound_is_no_evidence():
    def verdict(status, judged):
        return ResultVerdict(status, None if status is Status.PASSED else "no error bound is known", None, judged)

    evidence = Evidence()
    with pytest.raises(CheckFailed, match="UNCHECKED: the check ended without judging a result"):
        evidence.finish()
    evidence.require(verdict(Status.UNCHECKED, 0))
    with pytest.raises(CheckFailed, match="UNCHECKED: no error bound is known") as caught:
        evidence.finish()
    assert outcome(caught)[0] is Status.UNCHECKED
    evidence.require(verdict(Status.UNCHECKED, 3))
    evidence.finish()
    with pytest.raises(CheckFailed, match="UNCHECKED: value: no error bound"):
        evidence.require(verdict(Status.UNCHECKED, 3), "value", every_element=True)
