"""Our packages have common names: a module that hides or replaces one is named in one line, with what to do."""

import os
import sys

import pytest

from suites.unit.processes import run
from suites.unit.structure.house import PROJECT


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


def test_a_command_names_a_package_that_is_gone(tmp_path):
    for name in ("bridge", "suites"):
        (tmp_path / name).symlink_to(PROJECT / name)
    elsewhere = [entry for entry in sys.path if entry and not os.path.isdir(os.path.join(entry, "reports"))]
    # -S: an editable installation would find the package elsewhere.
    path = os.pathsep.join([str(tmp_path), *elsewhere])
    done = run("-S", "-P", "-m", "suites", "list", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 3
    assert done.stderr == f"kernel-bridge: its package 'reports' is missing from {tmp_path}. Install it again.\n"
