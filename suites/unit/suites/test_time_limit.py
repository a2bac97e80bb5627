"""A limit of time blames a kernel only if the kernel took the time."""

import os
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from reports import Status
from suites.numerics.derived import derived_truth
from suites.processes.time_limit import PATIENCE, TimeLimit, Used, used_by
from suites.unit.processes import run
from suites.validate.time_limit import read_note, watch

WAITS = "def waits(x):\n    ended.wait(60)\n    return x"


def _in_truth(waits):
    derived_truth(waits, (np.ones(3, np.float32),))


def _in_a_kernel(waits):
    jax.pure_callback(waits, jax.ShapeDtypeStruct((3,), np.float32), np.ones(3, np.float32)).block_until_ready()


@pytest.mark.parametrize(("run", "status"), [(_in_truth, Status.UNCHECKED), (_in_a_kernel, Status.TIMEOUT)])
def test_time_that_truth_takes_is_not_blamed_on_a_kernel(tmp_path, run, status):
    ended = threading.Event()
    names = {"ended": ended}
    exec(compile(WAITS, "/home/my_ops.py", "exec"), names)
    watch(0.5, tmp_path / "note", ended.set)
    run(names["waits"])
    assert ended.is_set()
    assert read_note(tmp_path / "note").status is status


HANGS = """
import time
from types import SimpleNamespace
from suites import plugin
item = SimpleNamespace(path=plugin._CHECKS / "test_x.py", nodeid="x", config=SimpleNamespace())
plugin.pytest_timeout_set_timer(item, SimpleNamespace(timeout=0.5, disable_debugger_detection=True))
print("watched", flush=True)
time.sleep(60)
"""


def test_a_check_is_ended_also_where_pytest_has_no_terminal():
    done = run("-c", HANGS)
    assert (done.returncode, done.stdout) == (1, "watched\n"), done.stderr


def test_a_check_that_ends_in_time_is_not_ended(tmp_path):
    ended = threading.Event()
    stop = watch(0.2, tmp_path / "note", ended.set)
    stop()
    time.sleep(0.4)
    assert not ended.is_set()
    assert not (tmp_path / "note").exists()


def ended(elapsed, processor_s=0.0, waited_s=0.0):
    """Why work with a limit of 10 s has to end, after some seconds in which it ran and waited for a processor."""
    now, had = [0.0], [Used(5.0, {"1": 3.0})]
    limit = TimeLimit(10.0, 0, clock=lambda: now[0], used=lambda pid: had[0])
    now[0], had[0] = elapsed, Used(5.0 + processor_s, {"1": 3.0 + waited_s, "2": 0.0})
    over = limit.overtime()
    return over and over.status


def test_a_starved_machine_makes_no_kernel_wrong():
    assert ended(9.0, processor_s=50.0) is None
    assert ended(11.0) is Status.TIMEOUT, "it sleeps, or waits for itself"
    assert ended(11.0, processor_s=10.5) is Status.TIMEOUT, "it computes"
    assert ended(60.0, processor_s=4.0, waited_s=55.0) is None, "others had the processors"
    assert ended(60.0, processor_s=12.0, waited_s=55.0) is Status.TIMEOUT, "it had its time in the end"
    assert ended(60.0, processor_s=1.0, waited_s=40.0) is Status.TIMEOUT, "it hangs beside others"
    assert ended(10.0 * PATIENCE, processor_s=4.0, waited_s=95.0) is Status.UNCHECKED


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a thread waited")
def test_the_system_tells_a_starved_process_from_one_that_hangs():
    core = min(os.sched_getaffinity(0))
    pin = f"import os, time; os.sched_setaffinity(0, [{core}]); "
    spin = "\nwhile True: pass"
    # The middle one starts the starved one: all processes of a tree count.
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {pin + 'os.nice(19)' + spin!r}])"
    programs = {"busy": pin + spin, "starved": nested, "hangs": pin + "time.sleep(60)"}
    started = {
        name: subprocess.Popen([sys.executable, "-c", text], start_new_session=True) for name, text in programs.items()
    }
    try:
        time.sleep(1.0)
        before = {name: used_by(process.pid) for name, process in started.items()}
        time.sleep(2.0)
        after = {name: used_by(process.pid) for name, process in started.items()}
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    waited = {
        name: max(seconds - before[name].waited_s.get(thread, 0) for thread, seconds in used.waited_s.items())
        for name, used in after.items()
    }
    assert waited["starved"] > 1.0
    assert waited["hangs"] < 0.1
    assert after["busy"].processor_s - before["busy"].processor_s > 0.2
    assert used_by(2**22 + 1) == Used(0.0, {})
