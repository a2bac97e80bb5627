"""A validation session records every way in which a cell can end, and goes on after those that end the process."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from reports import Status, find_run, load_run
from reports.options import Exit
from suites.checks.judging.evidence import CheckFailed, Evidence, outcome
from suites.numerics.verdict import ResultVerdict
from suites.unit.processes import run
from suites.unit.suites import test_backends

OUTSIDE = Path(__file__).with_name("ops_outside.py")
PROJECT = Path(__file__).parents[3]


def test_every_way_in_which_a_cell_can_end_is_recorded_and_said(tmp_path):
    """One validation of operators from another folder, for it takes long."""
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (example,) = (block for block in blocks if "OPERATOR = Operator(" in block)
    (tmp_path / "my_ops.py").write_text(example, encoding="utf-8")
    (tmp_path / "formula_language.py").write_text(test_backends.LANGUAGE, encoding="utf-8")
    (tmp_path / "formulas.py").write_text(test_backends.OPERATORS, encoding="utf-8")
    own = "cube- and (compiled or drawn or grad)"
    others = "(cube_wrong or polynomial or difference) and compiled"
    chosen = f"({own}) or ({others}) or (cube_worse and (crashes or hangs or concurrent))"
    done = run(
        "-m", "suites", "validate", "my_ops.py", "formulas.py", OUTSIDE, "--jobs", "1", "--timeout", "8",
        "--backend", "numba", "--backend", "formula", "--summary", summary, "--profile", "quick",
        "--", f"--junitxml={junit}", "-k", chosen, cwd=tmp_path, KERNEL_BRIDGE_RUNS="runs",
    )  # fmt: skip
    output, records = done.stdout + done.stderr, load_run(find_run("latest", tmp_path / "runs")).records
    assert done.returncode == Exit.WRONG, output

    def statuses(operator, mode=None):
        return {r.status for r in records if r.cell.operator == operator and mode in (None, r.cell.mode)}

    # The example of the README is right.
    assert statuses("cube") == {Status.PASSED, Status.SKIPPED}
    skips = {r.reason for r in records if r.cell.operator == "cube" and r.status is Status.SKIPPED}
    assert skips == {"numba kernels have no derivative of their own (def_vjp gives an operator one)"}
    assert {r.cell.mode for r in records if r.cell.operator == "cube"} >= {"compiled", "drawn"}

    # Each cell ends as what it is, once, and the rest goes on after a crash.
    assert statuses("cube_wrong", "compiled") == {Status.WRONG_VALUE}
    assert {r.status for r in records if r.cell.params == {"case": "crashes"}} == {Status.CRASHED}
    assert {r.status for r in records if r.cell.params == {"case": "hangs"}} == {Status.TIMEOUT}
    assert statuses("cube_worse", "threads") == {Status.PASSED}
    of_formulas = {(r.cell.operator, r.status) for r in records if r.cell.backend == "formula"}
    assert of_formulas >= {("polynomial", Status.PASSED), ("difference", Status.WRONG_VALUE)}
    assert ("polynomial", Status.WRONG_VALUE) not in of_formulas
    keys = [record.cell.key for record in records]
    assert len(keys) == len(set(keys))

    # Evidence is recorded with the verdict.
    wanted = ("cube", "compiled", "float32", 2100)
    (compiled,) = (r for r in records if (r.cell.operator, r.cell.mode, r.cell.dtype, r.cell.size) == wanted)
    assert 0 < compiled.accuracy.budget_used <= 1
    assert (compiled.shapes, compiled.dtypes) == ([[2100]], ["float32"])
    wrong = next(r for r in records if (r.cell.operator, r.cell.mode) == ("cube_wrong", "compiled"))
    assert wrong.accuracy.budget_used > 1
    assert "outside the error bound" in wrong.reason

    # A line for each verdict, the wrong ones last; the grid, the summary and JUnit's XML say the same.
    lines = [line for line in output.splitlines() if not line.startswith("kernel-bridge: ")]
    passed = lines.index(next(line for line in lines if line.startswith("cube PASSED: numba (")))
    (place,) = (index for index, line in enumerate(lines) if line.startswith("cube_wrong numba "))
    assert passed < place < len(lines) - 1
    assert re.search(r"is wrong: .* validate my_ops\.py ", lines[place])
    assert re.match(r"5 kernels: 2 passed, 3 wrong\. Repeat: kernel-bridge validate my_ops\.py .*--seed \d+", lines[-1])
    assert not re.search(r"Fatal Python error|\+ Timeout \+", output)
    assert "Validation on cpu" in output
    page = summary.read_text(encoding="utf-8")
    assert all(word in page for word in ("### Validation on cpu", "cube_wrong", "WRONG_VALUE", "CRASHED", "TIMEOUT"))
    cases = ElementTree.parse(junit).getroot().findall(".//testcase")
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    assert (len(cases), failed) == (len(records), sum(record.status.failed for record in records))


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
    evidence, said = Evidence(), "no error bound is known"
    with pytest.raises(CheckFailed, match="UNCHECKED: the check ended without judging a result"):
        evidence.finish()
    evidence.require(ResultVerdict(Status.UNCHECKED, said, None, 0))
    with pytest.raises(CheckFailed, match=f"UNCHECKED: {said}") as caught:
        evidence.finish()
    assert outcome(caught)[0] is Status.UNCHECKED
    some = ResultVerdict(Status.UNCHECKED, said, None, 3)
    evidence.require(some)
    evidence.finish()
    with pytest.raises(CheckFailed, match="UNCHECKED: value: no error bound"):
        evidence.require(some, "value", every_element=True)
