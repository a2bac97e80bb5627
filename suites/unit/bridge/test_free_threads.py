"""Threads that use the bridge at the same time: with Python's lock, and without it where Python has none."""

import sys
import sysconfig
import threading
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import debug_mode, numba_kernel
from bridge.ffi.kernel_call import _poisoned
from bridge.ffi.target import CPU_PARALLEL
from suites.unit.processes import output

NO_GIL = """
import sys, jax, jax.numpy as jnp, numba, bridge
@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
call = bridge.numba_kernel(double, jax.ShapeDtypeStruct((4,), jnp.float32))
assert (call(jnp.ones(4)) == 2).all()
print(sys._is_gil_enabled())
"""


def test_nothing_takes_the_gil_back():
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has the GIL: run the test with a free-threaded one, such as 3.14t")
    assert output("-c", NO_GIL, PYTHON_GIL=None) == "False"


def at_once(work, count=8):
    """What each of several threads that start together returns."""
    start, results = threading.Barrier(count), [None] * count

    def run(index):
        start.wait()
        results[index] = work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results


@pytest.fixture
def switching_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_a_target_that_fills_outputs_is_registered_once(switching_often):
    fresh = CPU_PARALLEL.variant("_of_a_test", lambda execute: execute)
    assert len(set(map(id, at_once(lambda _: _poisoned(fresh))))) == 1


def test_threads_wrap_trace_compile_and_call_the_same_and_other_kernels(switching_often):
    def make(factor):
        @numba.njit
        def scale(x, out):
            for i in range(x.size):
                out[i] = factor * x[i]

        return scale

    kernels = [make(factor) for factor in range(3)]

    def work(index):
        results = []
        for kernel in kernels[index % 3 :] + kernels[: index % 3]:
            call = numba_kernel(kernel, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="parallel")
            results.append(float(jax.vmap(call)(jnp.ones((3, 4), jnp.int32)).sum()))
            with debug_mode():
                results.append(float(call(jnp.ones(4)).sum()))
        return sorted(results)

    assert at_once(work) == [[0.0, 0.0, 4.0, 8.0, 12.0, 24.0]] * 8


# The GIL, and one compilation for all threads.


Spec = jax.ShapeDtypeStruct


def test_no_gil_is_held_while_a_kernel_runs():
    ticks = []

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    @numba.njit
    def works(x, out):
        total = 0.0
        for i in range(200_000_000):
            total += 1.0 / (1.0 + i * x[0])
        out[0] = total

    busy = numba_kernel(works, Spec((1,), np.float32))
    busy.lower(jnp.ones(1)).compile()
    done = threading.Event()
    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    busy(jnp.ones(1)).block_until_ready()
    end = time.perf_counter()
    done.set()
    ticker.join()
    during = [t for t in ticks if start < t < end]
    # With the GIL held there would be none; with it free, about one per millisecond.
    assert len(during) > 100 * (end - start)
