"""A limit of time blames a kernel only if the kernel took the time."""

import threading
import time

import jax
import numpy as np
import pytest

from suites.numerics.derived import derived_truth
from suites.validate.time_limit import watch

WAITS = "def waits(x):\n    ended.wait(60)\n    return x"


def _in_truth(waits):
    derived_truth(waits, (np.ones(3, np.float32),))


def _in_a_kernel(waits):
    jax.pure_callback(waits, jax.ShapeDtypeStruct((3,), np.float32), np.ones(3, np.float32)).block_until_ready()


@pytest.mark.parametrize(("run", "is_noted"), [(_in_truth, True), (_in_a_kernel, False)])
def test_time_that_truth_takes_is_noted_and_that_of_a_kernel_is_not(tmp_path, run, is_noted):
    ended = threading.Event()
    names = {"ended": ended}
    exec(compile(WAITS, "/home/my_ops.py", "exec"), names)
    watch(0.5, tmp_path / "note", ended.set)
    run(names["waits"])
    assert ended.is_set()
    assert (tmp_path / "note").exists() == is_noted


def test_a_check_that_ends_in_time_is_not_ended(tmp_path):
    ended = threading.Event()
    stop = watch(0.2, tmp_path / "note", ended.set)
    stop()
    time.sleep(0.4)
    assert not ended.is_set()
    assert not (tmp_path / "note").exists()
