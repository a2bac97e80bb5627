"""Processes that a command has started end with it, however it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suites.bench.parent_process import ORPHANED
from suites.unit.processes import environment, run

CHILD = "import time; from suites.bench.parent_process import end_with_parent; end_with_parent(); time.sleep({seconds})"

PARENT = f"""\
import subprocess, sys, time
from suites.bench.parent_process import lifeline
with lifeline() as stdin:
    child = subprocess.Popen([sys.executable, "-c", {CHILD.format(seconds=600)!r}], stdin=stdin)
    print(child.pid, flush=True)
    time.sleep(600)
"""


def is_running(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_a_child_ends_with_a_parent_that_is_killed(how):
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        time.sleep(1.0)
        assert is_running(child)
        parent.send_signal(how)
    end = time.monotonic() + 60
    while is_running(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(child)


@pytest.mark.parametrize(("stdin", "code"), [(subprocess.DEVNULL, 0), (subprocess.PIPE, ORPHANED)])
def test_only_a_pipe_is_a_lifeline(stdin, code):
    with subprocess.Popen([sys.executable, "-c", CHILD.format(seconds=3)], env=environment(), stdin=stdin) as child:
        if child.stdin is not None:
            child.stdin.close()
        assert child.wait(100) == code


def test_a_process_without_a_standard_input_goes_on():
    done = run(
        "-c", "import os; os.close(0); from suites.bench.parent_process import end_with_parent as e; e(); print(1)"
    )
    assert done.stdout == "1\n", done.stderr
