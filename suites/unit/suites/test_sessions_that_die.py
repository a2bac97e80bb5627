"""A session that is killed, or that finds the disk full, leaves a run that nobody takes for a success."""

import contextlib
import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports import find_run, load_run
from reports.options import Exit
from suites.sessions.commands.command_line import main
from suites.unit.processes import environment, run
from suites.unit.suites.git_repositories import OPERATORS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "ops.py").write_text(OPERATORS)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    return tmp_path


def started(folder, *arguments, **more):
    command = [sys.executable, "-m", "suites", "validate", "ops.py", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )


def shown(*command):
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        return main([*command]), errors.getvalue()


def test_a_session_that_is_killed_is_incomplete_and_goes_on(folder):
    chosen = ["--profile", "quick", "--jobs", "1"]
    with started(folder, *chosen) as process:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and not any(b'"kind":"cell"' in path.read_bytes() for path in _files(folder)):
            time.sleep(0.05)
        process.kill()
        process.communicate(timeout=60)
    code, errors = shown("show", "latest")
    assert code == Exit.COULD_NOT_RUN
    assert "INCOMPLETE: " in errors
    assert " cells are missing: twice-numba-f32-" in errors
    assert shown("show")[0] == Exit.FINE, "an interrupted run stops no list"
    with started(folder, *chosen, "--resume", "latest") as process:
        output, _ = process.communicate(timeout=240)
    assert process.returncode == Exit.FINE, output
    assert shown("show", "latest")[0] == Exit.FINE
    assert load_run(find_run()).begins == 2


def test_a_full_disk_ends_a_session_in_one_line(folder):
    """The limit for the size of a file stands for the size of the disk."""
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000));"
        " sys.argv = ['suites', 'validate', 'ops.py', *sys.argv[1:]]; runpy.run_module('suites', run_name='__main__')"
    )
    chosen = ["--profile", "quick", "--jobs", "1", "--", "-k", "eager or compiled or scan or vmap0 or repeat"]
    process = run("-c", program, *chosen, cwd=folder)
    output = process.stdout + process.stderr
    assert process.returncode == Exit.COULD_NOT_RUN, output
    assert "cannot be written: File too large" in output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    code, errors = shown("show", "latest")
    assert code == Exit.COULD_NOT_RUN
    assert "INCOMPLETE" in errors


def _files(folder):
    return Path(folder, "runs").glob("*.jsonl")
