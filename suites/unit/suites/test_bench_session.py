"""A timing session ends, whatever becomes of the record of a cell that brought its process down."""

import sys
from pathlib import Path

import pytest

from reports import RunUnwritable, RunWriter
from reports.options import Exit
from suites.sessions import isolation
from suites.sessions.commands.command_line import main

CRASHES = """\
import ctypes
import numba
from suites import Operator

abort = ctypes.CDLL(None).abort
abort.argtypes = []

@numba.njit
def crash(x, out):
    abort()

CRASH = Operator(name="crash", reference=lambda x: x, kernels={"numba": crash}, dtypes=("float32",))
"""


def _drop(self, result):
    """Loses a record without a word."""


def _refuse(self, result):
    raise RunUnwritable("no space left on device")


@pytest.mark.parametrize(
    ("append", "words"),
    [
        (_drop, "crash-numba-f32-64-cpu ended its process again, because"),
        (_refuse, "cannot be written: no space left on device"),
    ],
)
def test_a_crash_whose_record_is_lost_ends_the_session(append, words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(RunWriter, "append", append)  # in this process, which records crashes; not in the timing one
    Path("ops.py").write_text(CRASHES)
    assert main(["bench", "ops.py", "--size", "64"]) == Exit.COULD_NOT_RUN
    (line,) = [line for line in capfd.readouterr().err.splitlines() if words in line]
    assert "crash-numba-f32-64-cpu ended its process" in line


def test_a_new_process_finds_a_project_that_only_the_current_folder_makes_importable(monkeypatch):
    monkeypatch.chdir(isolation.HERE.parent)
    root = str(isolation.HERE.parent)
    monkeypatch.setattr("sys.path", ["", *(path for path in sys.path if path not in ("", root)), root])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with isolation.isolated() as (variables, _):
        assert variables["PYTHONPATH"] == root
