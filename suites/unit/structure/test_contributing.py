"""The README says which file to touch for an operator, a backend, a check or a column: this does it, in a copy."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

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


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the packages, in which a contributor writes."""
    folder = tmp_path_factory.mktemp("contribution")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "unit", "published", "tutorials")
        shutil.copytree(PROJECT / package, folder / package, ignore=ignored)
    return folder


def promised(what):
    """The paths that the README names for a contribution."""
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    contributing = readme.partition("## Contributing")[2]
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
    rows = json.loads(command(copy, "validate", "--operator", "negate", "--format", "json"))
    statuses = {row["status"] for row in rows if row["backend"] == "numba"}
    assert "PASSED" in statuses <= {"PASSED", "SKIPPED"}
    assert "negate" in command(copy, "bench", "--operator", "negate", "--size", "1000")
