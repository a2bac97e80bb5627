"""The line of pytest in the documentation and ``validate`` make the same checks, and come to the same verdict."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reports import find_run, load_run
from reports.options import Exit
from suites.unit.processes import environment

PROJECT = Path(__file__).parents[3]

OPERATORS = """\
import numba
from suites import Operator

@numba.njit
def twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

@numba.njit
def thrice(x, out):
    for i in range(x.size):
        out[i] = 3 * x[i]

RIGHT = Operator(name="right", reference=lambda x: 2 * x, kernels={"numba": twice}, dtypes=("float32",))
WRONG = Operator(name="wrong", reference=lambda x: 2 * x, kernels={"numba": thrice}, dtypes=("float32",))
"""

CONFTEST = """\
def pytest_addoption(parser):
    parser.addoption("--device")
"""
SETTINGS = """\
[pytest]
addopts = --strict-markers --strict-config
markers = speed: hers
"""

CHOSEN = "(wrong and compiled) or (right and shard)"
"""Some checks: sharding needs several devices, the other needs all inputs."""


@pytest.fixture(scope="module")
def hers(tmp_path_factory):
    """A folder of somebody's own tests, with settings that would change the checks."""
    folder = tmp_path_factory.mktemp("hers")
    (folder / "my_ops.py").write_text(OPERATORS)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(SETTINGS)
    return folder


def ended(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment(KERNEL_BRIDGE_RUNS=str(folder / "runs")),
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def line():
    """The arguments of pytest in docs/validate.md."""
    page = (PROJECT / "docs" / "validate.md").read_text()
    (found,) = re.findall(r"^\$ pytest (-p suites\.plugin .*)$", page, re.MULTILINE)
    return found.split()


def results(folder):
    return sorted((record.cell.key, record.status) for record in load_run(find_run("latest", folder / "runs")).records)


def test_both_make_the_same_cells_with_the_same_statuses_and_exit_codes(hers):
    code, output = ended(hers, "suites", "validate", "my_ops.py", "--jobs", "1", "--seed", "1", "--", "-k", CHOSEN)
    assert code == Exit.WRONG, output
    by_command = results(hers)
    assert len({key[2:4] for key, _ in by_command}) >= 2
    more = ["-n", "0", "--kb-seed", "1", "-p", "no:cacheprovider", "-k", CHOSEN]
    code, output = ended(hers, "pytest", *line(), "--kb-record", *more)
    assert code == Exit.WRONG, output
    assert results(hers) == by_command


def test_a_session_without_a_check_is_not_fine_and_leaves_nothing(hers):
    before = {path.name for path in hers.iterdir()}
    code, output = ended(hers, "pytest", *line(), "--kb-backend", "warp", "-n", "0", "-p", "no:cacheprovider")
    assert code == Exit.COULD_NOT_RUN, output
    assert "Traceback" not in output
    assert {path.name for path in hers.iterdir()} <= before | {"runs", "__pycache__"}


def test_settings_that_hide_the_checks_are_an_error(hers):
    more = ["-o", "python_functions=check_*", "-n", "0", "-p", "no:cacheprovider"]
    code, output = ended(hers, "pytest", *line(), *more)
    assert code == Exit.COULD_NOT_RUN, output
    assert "no check is left" in output
