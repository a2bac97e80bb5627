"""A new check is one new file: it runs, is recorded, and is a column of the grid and of the kill matrix."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reports import Status, find_run, read_run
from suites.checks.folders import VARIABLE
from suites.checks.register import checks
from suites.unit.processes import environment

TOY = """\
import jax
import numpy as np

from suites.cells.tables.calls import KERNELS
from suites.checks.register import check
from suites.checks.judging.cell_verdict import judge_results


@check("toy", sees="results that differ with the order of calls", cells=KERNELS)
def test_toy(case, evidence):
    inputs = case.inputs()
    call = jax.jit(case.operator.build(case.backend, inputs))
    call(*map(np.zeros_like, inputs))
    evidence.require(judge_results(case.operator, inputs, call(*inputs)))
"""

UNREGISTERED = "def test_lost(case):\n    pass\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks").mkdir()
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, "-m", "suites", *arguments]
    variables = environment(**{VARIABLE: str(folder / "checks"), "KERNEL_BRIDGE_RUNS": "runs", "COLUMNS": "200"})
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)


def test_a_file_in_a_folder_of_checks_is_a_check(folder):
    (folder / "checks" / "test_toy.py").write_text(TOY)
    chosen = ["--operator", "relu", "--profile", "quick", "--jobs", "1"]
    done = run(folder, "validate", *chosen, "--", "-k", "toy or eager")
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_run(find_run("latest", folder / "runs"))
    found = {(record.cell.backend, record.status) for record in records if record.cell.mode == "toy"}
    assert found == {(backend, Status.PASSED) for backend in ("numba", "numba_parallel", "warp", "warp_tile")}
    shown = [line.partition("│")[0].strip() for line in done.stdout.splitlines() if "│" in line]
    names = [name for name in shown if name in ("eager", "grad eager", "toy")]
    assert names == ["eager", "grad eager", "toy"]  # without an order it comes last


def test_the_kill_matrix_has_a_column_for_it(folder):
    (folder / "checks" / "test_toy.py").write_text(TOY)
    chosen = ["--operator", "relu~lost_nan", "--jobs", "1"]
    done = run(folder, "mutants", *chosen, "--format", "json", "--", "-k", "toy or edge_case")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    (toy,) = [row for row in rows if row.get("name") == "toy"]
    assert "results that differ with the order of calls" in toy.values()
    (killed,) = [row for row in rows if row["mutant"] == "relu~lost_nan" and row["backend"] == "warp"]
    assert killed[f"check {len(checks()) + 1}"] == "·"  # it ran, and did not see this fault


@pytest.mark.parametrize("command", ["validate", "list"])
def test_a_check_that_is_not_registered_is_refused_in_one_line(folder, command):
    (folder / "checks" / "test_lost.py").write_text(UNREGISTERED)
    done = run(folder, command, "--operator", "relu")
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("kernel-bridge: ")]
    assert "test_lost is not registered. Decorate it: @check('name'" in line
    assert not list((folder / "runs").glob("*"))


def test_pytest_refuses_it_when_it_collects_the_file(folder):
    lost = folder / "checks" / "test_lost.py"
    lost.write_text(UNREGISTERED)
    variables = environment(**{VARIABLE: str(folder / "checks")})
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "suites.plugin", "-q", str(lost)]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "test_lost is not registered" in done.stdout
