"""Ctrl-C reaches the command wherever the main thread is."""

import pytest

from suites.unit.processes import output, run

START = """
import gc, importlib, os, signal, sys, time
from suites.sessions import interruption
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
INTERRUPTION = interruption.Interruption()
INTERRUPTION.install()
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""

END = """
try:
    begin()
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted", INTERRUPTION.happened)
"""


class Lost:
    GARBAGE = """
def begin():
    gc.callbacks.append(lambda phase, info: phase == "stop" and not INTERRUPTION.happened and interrupt())
    gc.collect()
    print("went on", flush=True)
"""
    FINALIZER = """
class Finalized:
    def __del__(self):
        interrupt()
        time.sleep(0.01)
def begin():
    Finalized()
    print("went on", flush=True)
"""


@pytest.mark.parametrize("program", [Lost.GARBAGE, Lost.FINALIZER], ids=["garbage", "finalizer"])
def test_an_interruption_that_python_ignores_comes_again(program):
    done = run("-c", START + program + END)
    assert done.stdout.split("\n") == ["went on", "interrupted True", ""]
    assert done.stderr == ""


def test_other_exceptions_of_finalizers_are_shown(tmp_path):
    done = run("-c", START + "class A:\n    def __del__(self):\n        raise ValueError('shown')\nA()")
    assert "ValueError: shown" in done.stderr


MODULE = """
import __main__, time
try:
    __main__.interrupt()
    time.sleep({seconds})
    {more}
    print("imported", flush=True)
except KeyboardInterrupt:
    print("while it was imported", flush=True)
    raise
"""

IMPORTS = """
def begin():
    sys.path.insert(0, {folder!r})
    import slow
"""


@pytest.mark.parametrize(
    ("seconds", "more", "said"),
    [
        (0.3, "", "imported"),
        (0.3, "__main__.interrupt(); time.sleep(0.01)", "while it was imported"),
        (30, "", "while it was imported"),
    ],
    ids=["waits", "typed again", "long"],
)
def test_an_import_is_not_interrupted_unless_it_is_long_or_ctrl_c_comes_again(tmp_path, seconds, more, said):
    (tmp_path / "slow.py").write_text(MODULE.format(seconds=seconds, more=more))
    shorter = "interruption.LONGEST_WAIT_S = 1.0\n"
    printed = output("-c", START + shorter + IMPORTS.format(folder=str(tmp_path)) + END)
    assert printed.split("\n") == [said, "interrupted True"]
