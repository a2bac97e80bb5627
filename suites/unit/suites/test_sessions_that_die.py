"""A session that is killed, or that finds the disk full, leaves a run that nobody takes for a success."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports import find_run, load_run
from reports.options import Exit
from suites.commands.command_line import main
from suites.unit.processes import environment, output, run
from suites.unit.suites.git_repositories import OPERATORS


@pytest.fixture(autouse=True)
def operators(folder):
    """The folder to type commands in has a file of operators."""
    Path("ops.py").write_text(OPERATORS)


def test_a_session_that_is_killed_is_incomplete_and_goes_on(folder, capsys):
    command = ["-m", "suites", "validate", "ops.py", "--profile", "quick", "--jobs", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([sys.executable, *command], env=environment(), **pipes) as process:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and not any(b'"kind":"cell"' in path.read_bytes() for path in _files(folder)):
            time.sleep(0.05)
        process.kill()
        process.communicate(timeout=60)
    assert main(["show", "latest"]) == Exit.COULD_NOT_RUN
    errors = capsys.readouterr().err
    assert "INCOMPLETE: " in errors
    assert " cells are missing: twice-numba-f32-" in errors
    assert main(["show"]) == Exit.FINE, "an interrupted run stops no list"
    output(*command, "--resume", "latest")
    assert main(["show", "latest"]) == Exit.FINE
    assert load_run(find_run()).begins == 2


def test_a_full_disk_ends_a_session_in_one_line(capsys):
    """The limit for the size of a file stands for the size of the disk."""
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000));"
        " sys.argv = ['suites', 'validate', 'ops.py', *sys.argv[1:]]; runpy.run_module('suites', run_name='__main__')"
    )
    chosen = ["--profile", "quick", "--jobs", "1", "--", "-k", "eager or compiled or scan or vmap0 or repeat"]
    process = run("-c", program, *chosen)
    said = process.stdout + process.stderr
    assert process.returncode == Exit.COULD_NOT_RUN, said
    assert "cannot be written: File too large" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    assert main(["show", "latest"]) == Exit.COULD_NOT_RUN
    assert "INCOMPLETE" in capsys.readouterr().err


def _files(folder):
    return Path(folder, "runs").glob("*.jsonl")
