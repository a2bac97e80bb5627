"""Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, and the command knows of it; a killed one leaves no folder."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from suites.sessions.temporary import make_folder
from suites.unit.processes import output

PROGRAM = """
import os, signal, time
from suites.sessions.interruption import Interruption
signal.signal(signal.{name}, signal.{before})  # a process in the background ignores SIGINT
interruption = Interruption()
interruption.install()
try:
    os.kill(os.getpid(), signal.{name})
    time.sleep(1)
    print("went on")
except KeyboardInterrupt:
    print("interrupted", interruption.happened)
"""


@pytest.mark.parametrize(
    ("name", "before", "said"),
    [
        ("SIGINT", "default_int_handler", "interrupted True"),
        ("SIGTERM", "SIG_DFL", "interrupted True"),
        ("SIGHUP", "SIG_DFL", "interrupted True"),
        ("SIGHUP", "SIG_IGN", "went on"),
    ],
)
def test_a_signal_interrupts_unless_somebody_else_handles_it(name, before, said):
    assert output("-c", PROGRAM.format(name=name, before=before)).strip() == said


KILLED = """
import os, signal
from suites.sessions.temporary import make_folder
print(make_folder(), flush=True)
if {ends}:
    os.kill(os.getpid(), signal.SIGKILL)
input()
"""


def test_the_next_session_deletes_the_temporary_folders_of_killed_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed, lives = (
        subprocess.Popen(
            [sys.executable, "-c", KILLED.format(ends=ends)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment, text=True,
        )
        for ends in (True, False)
    )  # fmt: skip
    with killed, lives:
        folders = [Path(each.stdout.readline().strip()) for each in (killed, lives)]
        killed.wait(60)
        clone = tmp_path / "kernel-bridge-main"
        clone.mkdir()
        mine = Path(make_folder())
        assert [folder.exists() for folder in folders] == [False, True]
        assert mine.exists()
        assert clone.exists()
        lives.communicate("\n", timeout=60)
