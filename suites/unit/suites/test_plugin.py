"""The plugin changes no session that does not ask for it, and in one that does, only the tests of this package."""

import os
import sys
import tomllib

import pytest

from suites.unit.processes import run
from suites.unit.structure.house import PROJECT

CONFTEST = """\
def pytest_addoption(parser):
    for name in ("device", "profile", "operator", "operators", "backend", "cells", "record", "summary", "resume"):
        parser.addoption("--" + name)
"""
TESTS = """\
import gc

import pytest
from hypothesis import given, settings, strategies

@pytest.mark.speed
def test_marked():
    assert settings.default.max_examples == settings.get_profile("default").max_examples
    assert gc.isenabled()

@pytest.mark.parametrize("kernel_case", [1, 2])
def test_with_a_parameter_named_as_ours(kernel_case):
    pass

def test_first_in_her_order():
    pass
"""


@pytest.fixture
def hers(tmp_path):
    """A folder of somebody's own tests, whose options, markers and names are like those of this project."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = speed: hers\naddopts = --strict-markers\n")
    (tmp_path / "test_hers.py").write_text(TESTS)
    return tmp_path


def session(folder, *arguments):
    return run("-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=folder)


def test_no_plugin_is_loaded_by_being_installed():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project


def test_her_tests_keep_their_options_and_order_beside_the_checks(hers):
    (hers / "ops.py").write_text("from suites.ops.sigmoid import OPERATOR as SIGMOID\n")
    checks = ["--pyargs", "suites.checks.test_memory", "--kb-operators", "ops.py", "--kb-backend", "numba"]
    loaded = ["-p", "suites.plugin", "-W", "error", "-v", "--device", "mine"]
    done = session(hers, *loaded, *checks, "test_hers.py", "-k", "test_hers or (guards and f32)")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.partition(" ")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "PASSED" in line]
    named = "test_with_a_parameter_named_as_ours"
    own = [line.partition("::")[2] for line in lines if line.startswith("test_hers.py")]
    assert own == ["test_marked", f"{named}[1]", f"{named}[2]", "test_first_in_her_order"]
    assert len(lines) > len(own)


def test_a_package_of_hers_that_hides_one_of_ours_is_named(hers):
    (hers / "reports").mkdir()
    (hers / "reports" / "__init__.py").write_text("")
    done = session(hers, "-p", "suites.plugin", "--pyargs", "suites.checks.test_memory")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = done.stderr.strip().splitlines()
    assert f"{hers / 'reports' / '__init__.py'} hides its package 'reports'" in line


# A module that hides one of our packages is named in one line, with what to do.


def ended(folder, *arguments):
    """The exit code of Python, which finds modules in ``folder`` first, and the lines that it printed as errors."""
    done = run("-P", *arguments, cwd=folder, PYTHONPATH=os.pathsep.join([str(folder), *sys.path]))
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("foreign", ["reports/__init__.py", "reports.py", "bridge.py"])
def test_a_command_names_the_module_that_hides_ours(tmp_path, foreign):
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).write_text("HERS = True\n")
    code, (line,) = ended(tmp_path, str(PROJECT / "suites" / "__main__.py"), "list")
    assert code == 3
    assert f"{tmp_path / foreign} hides its package '{foreign[:6].strip('.')}" in line
    assert "rename it or run the command in another folder" in line
