"""Equal code is never called slower, and code that does more work is, by the first processes: in timed revisions."""

from pathlib import Path

import pytest

from reports import find_run
from reports.options import Exit
from reports.records.store import list_runs, run_id
from suites.commands.command_line import main
from suites.unit.suites.git_repositories import commit

OPERATORS = """\
import numba
from suites import Operator

STEPS = {steps}

@numba.njit
def cube(x, out):
    for i in range(x.size):
        value = x[i]
        for _ in range(STEPS):
            value = value * numba.float32(0.5) + numba.float32(0.25)
        out[i] = x[i] * x[i] * x[i] + numba.float32(0) * value

CUBE = Operator(name="cube", reference=lambda x: x * x * x, kernels={{"numba": cube}}, dtypes=("float32",))
"""
STEPS = 400
FEW = ["--size", "4096", "--profile", "quick", "--processes", "4"]


@pytest.mark.timeout(900)
def test_equal_code_is_never_slower_and_more_work_always_is(folder, monkeypatch, capsys):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(folder / "runs"))
    place = folder / "project"
    for steps in (STEPS, STEPS, 3 * STEPS // 2, 15 * STEPS):
        commit(place, {"my_ops.py": OPERATORS.format(steps=steps) + "\n" * (steps == STEPS and place.exists())})
    monkeypatch.chdir(place)
    codes = [main(["compare", f"HEAD~{back}", f"HEAD~{back - 1}", "my_ops.py", *FEW]) for back in (3, 2, 1)]
    assert codes[0] != Exit.WRONG, "equal code"
    assert codes[1:] == [Exit.WRONG, Exit.WRONG], "half as much again, and ten times as much"
    first, *_, last = [run_id(path) for path in list_runs()]
    capsys.readouterr()
    assert main(["compare", first, last]) == Exit.WRONG, "of two sessions, one after the other"
    assert main(["compare", first, run_id(list_runs()[2])]) != Exit.WRONG
    shown = capsys.readouterr().out
    assert "SLOWER" in shown
    assert Path(find_run(first)).exists()
