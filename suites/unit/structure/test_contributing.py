"""Contributing says which file to touch for an operator, a backend, a check or a column: this does it, in a copy."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from suites.unit.reports.test_columns import CHANGES
from suites.unit.structure.house import PACKAGES, PROJECT

OPERATOR = '''
"""Negates: ``out[i] = -x[i]``."""

import numba

from suites import Operator


@numba.njit
def negate(x, out):
    for i in range(x.size):
        out[i] = -x[i]


OPERATOR = Operator(name="negate", reference=lambda x: -x, kernels={"numba": negate})
'''


FEW = ("--profile", "quick", "--jobs", "1")
ALONE = ("--processes", "1")
"""A contribution is found or it is not: more cells, and more processes that time them, would say the same."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the packages, in which a contributor writes."""
    folder = tmp_path_factory.mktemp("contribution")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "unit", "published", "tutorials")
        shutil.copytree(PROJECT / package, folder / package, ignore=ignored)
    return folder


def promised(what):
    """The paths that the page names for a contribution."""
    contributing = (PROJECT / "docs" / "contributing.md").read_text(encoding="utf-8")
    (item,) = re.findall(rf"^- To add {what}, (.*?)(?=^- |\n\n)", contributing, re.MULTILINE | re.DOTALL)
    return re.findall(r"`([a-z_/]+/(?:[a-z_*]+\.py)?)`", item)


def command(copy, *arguments):
    """Runs a command of the copy from another folder, and returns what it printed."""
    environment = os.environ | {"PYTHONPATH": str(copy)}
    folder = copy / "elsewhere"
    folder.mkdir(exist_ok=True)
    process = subprocess.run(
        [sys.executable, "-m", "suites", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_an_operator_is_one_file(copy):
    assert promised("an operator")[0] == "suites/ops/"
    (copy / "suites/ops/negate.py").write_text(OPERATOR, encoding="utf-8")
    rows = json.loads(command(copy, "validate", "--operator", "negate", *FEW, "--format", "json"))
    statuses = {row["status"] for row in rows if row["backend"] == "numba"}
    assert "PASSED" in statuses <= {"PASSED", "SKIPPED"}
    assert "negate" in command(copy, "bench", "--operator", "negate", "--size", "1000", *ALONE)


BACKEND = '''
"""Adds the backend ``text``: arithmetic on one array, as text."""

from dataclasses import dataclass

import jax

from suites.backends.backend import Backend, register_backend
from suites.backends.kernel import Kernel


@dataclass(frozen=True)
class Text(Kernel):
    text: str

    def build(self, inputs, outs):
        return jax.jit(lambda x: [eval(self.text, {"x": x})])


register_backend(
    Backend(
        id="text",
        targets={"cpu": None},
        accept=lambda kernel: Text(kernel) if isinstance(kernel, str) else None,
        expected="arithmetic of x as text",
        cure="Write it with x.",
    )
)
'''


def test_a_backend_is_one_file_and_a_line_that_gives_its_place(copy):
    assert promised("a backend")[:2] == ["suites/backends/", "suites/backends/__init__.py"]
    (copy / "suites/backends/text.py").write_text(BACKEND, encoding="utf-8")
    with (copy / "suites/backends/__init__.py").open("a", encoding="utf-8") as face:
        face.write("from suites.backends import text as text\n")
    (copy / "suites/ops/twice.py").write_text(
        "from suites import Operator\n"
        "OPERATOR = Operator(name='twice', reference=lambda x: 2 * x, kernels={'text': 'x + x'})\n",
        encoding="utf-8",
    )
    rows = json.loads(command(copy, "list", "--operator", "twice", "--format", "json"))
    assert [row["backend"] for row in rows] == ["jnp", "text"]
    assert "text" in command(copy, "bench", "--operator", "twice", "--size", "1000", *ALONE)


CHECK = '''
"""Checks that a kernel gives the same result inside ``jax.checkpoint``."""

from typing import Any

import jax

from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("remat", sees="a call that is computed again", cells=TRANSFORMED_KERNELS)
def test_a_checkpointed_call_is_right(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        results: Any = jax.jit(jax.checkpoint(case.operator.build(case.backend, inputs)))(*inputs)
    evidence.require(judge_results(case.operator, inputs, results))
'''


def test_a_check_is_one_file(copy):
    assert promised("a check")[0] == "suites/checks/test_*.py"
    file = copy / "suites/checks/test_remat.py"
    file.write_text(CHECK, encoding="utf-8")
    chosen = ("--operator", "sigmoid", *FEW, "--format", "json", "--", "-k", "remat or eager")
    rows = json.loads(command(copy, "validate", *chosen))
    own = [row for row in rows if row["mode"] == "remat"]
    assert own
    assert {row["mode"] for row in rows} > {"remat"}  # beside the checks that there are
    assert {row["status"] for row in own} <= {"PASSED", "SKIPPED"}
    file.unlink()


def test_a_column_is_its_fact_and_its_description():
    """The tests of columns make these changes in a copy, and look for the column in every format."""
    folder, description = promised("a column")
    assert [path for path in CHANGES if path.startswith(folder)] + [description] == [*CHANGES]
