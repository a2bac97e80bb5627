"""Contributing says which file to touch for an operator, a backend, a check or a column: this does it, in a copy."""

import json
import re
import shutil

import pytest

from suites.unit.processes import output
from suites.unit.reports.test_columns import CHANGES
from suites.unit.structure.house import PACKAGES, PROJECT
from suites.unit.suites.test_toy_backend import LANGUAGE

OPERATOR = '''
"""Negates: ``out[i] = -x[i]``."""

import numba

from suites import Operator


@numba.njit
def negate(x, out):
    for i in range(x.size):
        out[i] = -x[i]


OPERATOR = Operator(name="negate", reference=lambda x: -x, kernels={"numba": negate, "formula": "-x"})
'''


@pytest.fixture
def copy(tmp_path):
    """A copy of the packages, in which a contributor writes."""
    folder = tmp_path / "contribution"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "unit", "published", "tutorials")
        shutil.copytree(PROJECT / package, folder / package, ignore=ignored)
    return folder


def promised(what):
    """The paths that the page names for a contribution."""
    contributing = (PROJECT / "docs" / "contributing.md").read_text(encoding="utf-8")
    (item,) = re.findall(rf"^- To add {what}, (.*?)(?=^- |\n\n)", contributing, re.MULTILINE | re.DOTALL)
    return re.findall(r"`([a-z_/]+/(?:[a-z_*]+\.py)?)`", item)


CHECK = '''
"""Checks that a kernel gives the same result inside ``jax.checkpoint``."""

from typing import Any

import jax

from suites.cells.case import Case
from suites.cells.tables import TRANSFORMED_KERNELS
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


def test_an_operator_and_a_check_are_one_file_each_and_a_backend_is_one_and_a_line(copy):
    assert promised("an operator")[0] == "suites/ops/"
    assert promised("a check")[0] == "suites/checks/test_*.py"
    assert promised("a backend")[:2] == ["suites/backends/", "suites/backends/__init__.py"]
    (copy / "suites/ops/negate.py").write_text(OPERATOR, encoding="utf-8")
    (copy / "suites/checks/test_remat.py").write_text(CHECK, encoding="utf-8")
    (copy / "suites/backends/formula.py").write_text(LANGUAGE, encoding="utf-8")
    with (copy / "suites/backends/__init__.py").open("a", encoding="utf-8") as face:
        face.write("from suites.backends import formula as formula\n")
    (elsewhere := copy / "elsewhere").mkdir()
    command = ["validate", "--operator", "negate", "--profile", "quick", "--jobs", "1", "--format", "json", "--", "-k"]
    shown = output("-m", "suites", *command, "remat or compiled", cwd=elsewhere, PYTHONPATH=str(copy))
    rows = json.loads(shown)
    statuses = {(row["backend"], row["mode"]): row["status"] for row in rows if row["dtype"] == "float32"}
    assert statuses["numba", "remat"] == statuses["formula", "compiled"] == "PASSED", statuses


def test_a_column_is_its_fact_and_its_description():
    """The tests of columns make these changes in a copy, and look for the column in every format."""
    folder, description = promised("a column")
    assert [path for path in CHANGES if path.startswith(folder)] + [description] == [*CHANGES]
