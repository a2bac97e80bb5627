"""The line of pytest in the documentation makes the checks of ``validate``, and ends with its exit codes."""

import re

import pytest

from reports import Status, find_run, load_run
from reports.options import Exit
from suites.unit.processes import run
from suites.unit.structure.house import PROJECT
from suites.unit.suites.git_repositories import OPERATORS

WRONG = OPERATORS.replace("twice", "wrong").replace("OPERATOR", "WRONG").replace("2 * x[i]", "3 * x[i]")

CHOSEN = "(wrong and compiled) or (twice and shard)"
"""Some checks: sharding needs several devices, the other needs all inputs."""


@pytest.fixture(scope="module")
def hers(tmp_path_factory):
    """A folder of somebody's own tests, with settings that would change the checks."""
    folder = tmp_path_factory.mktemp("hers")
    (folder / "my_ops.py").write_text(OPERATORS + WRONG)
    (folder / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--device')\n")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\nmarkers = speed: hers\n")
    return folder


def ended(folder, *arguments):
    done = run("-m", "pytest", *arguments, cwd=folder, KERNEL_BRIDGE_RUNS=str(folder / "runs"))
    return done.returncode, done.stdout + done.stderr


def line():
    """The arguments of pytest in docs/validate.md."""
    page = (PROJECT / "docs" / "validate.md").read_text()
    (found,) = re.findall(r"^\$ pytest (-p suites\.plugin .*)$", page, re.MULTILINE)
    return found.split()


def test_it_records_each_check_and_ends_as_validate_does(hers):
    more = ["-n", "0", "--kb-profile", "quick", "-p", "no:cacheprovider", "-k", CHOSEN]
    code, output = ended(hers, *line(), "--kb-record", *more)
    assert code == Exit.WRONG, output
    records = load_run(find_run("latest", hers / "runs")).records
    found = {(each.cell.operator, each.cell.mode, each.status) for each in records if each.status != Status.SKIPPED}
    assert found == {("wrong", "compiled", Status.WRONG_VALUE), ("twice", "shard", Status.PASSED)}


def test_a_session_without_a_check_is_not_fine_and_leaves_nothing(hers):
    before = {path.name for path in hers.iterdir()}
    code, output = ended(hers, *line(), "--kb-backend", "warp", "-n", "0", "-p", "no:cacheprovider")
    assert code == Exit.COULD_NOT_RUN, output
    assert "Traceback" not in output
    assert {path.name for path in hers.iterdir()} <= before | {"runs", "__pycache__"}
