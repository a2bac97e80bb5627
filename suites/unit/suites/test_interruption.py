"""Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, and the command knows of it."""

import pytest

from suites.unit.processes import output

PROGRAM = """
import os, signal, time
from suites.processes.interruption import Interruption
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
