"""numba_kernel: parallel loops on XLA's threads: right, repeatable, with their exceptions."""

import os

import pytest

from suites.unit import processes

KERNELS = """
import ctypes, threading
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import numba_kernel

@numba.njit
def check(v):
    if v == 77:
        raise ValueError("found", v)
    return v

@numba.njit(parallel=True)
def helper(x, out):
    for i in numba.prange(x.size):
        out[i] = check(x[i])

@numba.njit
def through_a_helper(x, out):
    helper(x, out)

def refuse(v):
    if v == 77 or v == 1:
        raise KeyError("in Python", int(v))
    return int(v)

@numba.njit(parallel=True)
def python_in_a_loop(x, out):
    for i in numba.prange(x.size):
        out[i] = one_in_python(x[i])

@numba.njit
def one_in_python(v):
    with numba.objmode(w="int32"):
        w = refuse(v)
    return w

def spec(size, dtype=np.float32):
    return jax.ShapeDtypeStruct((size,), dtype)

def run_at_once(*works):
    threads = [threading.Thread(target=work) for work in works]
    for each in threads: each.start()
    for each in threads: each.join()

GOOD = jnp.zeros(300, np.int32)
BAD = jnp.arange(300, dtype=np.int32)
occurred = ctypes.pythonapi.PyErr_Occurred
occurred.restype = ctypes.c_void_p

def fails(call, x, text):
    try:
        call(x).block_until_ready()
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # JAX raises the latter where it has run a call later
        assert text in str(error), error
    else:
        raise AssertionError("no error")
    assert not occurred()
"""


def run(program, **environment):
    return processes.output("-c", KERNELS + program, **environment)


EXCEPTIONS = """
call = numba_kernel(through_a_helper, spec(300, np.int32))
for _ in range(10):
    fails(call, BAD, "through_a_helper raised ValueError: ('found', 77)")
    assert not call(GOOD).any()
call = numba_kernel(python_in_a_loop, spec(300, np.int32))
large = jax.jit(lambda x: call(x) + call(x + 1))  # on XLA's threads, which have no Python state
for _ in range(10):
    fails(call, BAD, "python_in_a_loop raised KeyError: ('in Python', ")
    fails(large, GOOD, "python_in_a_loop raised KeyError: ('in Python', 1)")
    assert not call(GOOD).any()
"""
SEVERAL_AT_ONCE = """
wrong = []
def work(call, device, text):
    for _ in range(40):
        try:
            if text is None:
                assert not np.asarray(call(jax.device_put(GOOD, device))).any()
            else:
                fails(call, jax.device_put(BAD, device), text)
        except Exception as error:
            wrong.append(error)
call = numba_kernel(helper, spec(300, np.int32))
texts = (None, "helper raised ValueError: ('found', 77)")
run_at_once(*(lambda d=d, t=t: work(call, d, t) for d in jax.devices() for t in texts))
assert not wrong, wrong
"""


@pytest.mark.parametrize("more", [0, 2], ids=["usual", "more"])
def test_an_exception_fails_its_own_call_and_leaves_nothing_behind(more):
    has = max(os.cpu_count() or 1, 3)  # XLA has a thread for each processor or device
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "NUMBA_NUM_THREADS": str(has + more)}
    assert run(EXCEPTIONS + SEVERAL_AT_ONCE + "print('done')", **environment) == "done"


ON_XLA = """
@numba.njit(parallel=True)
def one_thread(x, out):
    numba.set_num_threads(1)
    for i in numba.prange(x.size):
        out[i] = check(x[i])
@numba.njit(parallel=True)
def count(x, out):
    for i in numba.prange(x.size):
        out[i] = numba.get_num_threads()
alone, counted = numba_kernel(one_thread, spec(300, np.int32)), numba_kernel(count, spec(300, np.int32))
program = jax.jit(lambda x: counted(alone(x)))
for _ in range(20):
    assert set(np.asarray(program(GOOD)).tolist()) == {4}
    fails(alone, BAD, "one_thread raised ValueError: ('found', 77)")
print("done")
"""


def test_a_kernel_sets_the_number_of_threads_for_itself_alone():
    environment = {"NUMBA_NUM_THREADS": "4", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    assert run(ON_XLA, **environment) == "done"


CACHED_KERNELS = """
import numba

@numba.njit(parallel=True, cache=True)
def parallel(x, out):
    for i in numba.prange(x.size):
        if x[i] == 7:
            raise ValueError("seven")
        out[i] = 2 * x[i]

@numba.njit(cache=True)
def calls_parallel(x, out):
    parallel(x, out)
"""
CACHED = """
import sys
sys.path.insert(0, sys.argv[1])
from cached_kernels import parallel, calls_parallel
for kernel in (parallel, calls_parallel):
    call = numba_kernel(kernel, spec(5))
    assert call(jnp.arange(5.0)).tolist() == [0, 2, 4, 6, 8]
    fails(call, 7 + jnp.arange(5.0), f"{kernel.__name__} raised ValueError: seven")
    print(sum(kernel.stats.cache_hits.values()))
"""


def test_a_second_process_takes_parallel_kernels_from_numbas_cache(tmp_path):
    (tmp_path / "cached_kernels.py").write_text(CACHED_KERNELS)
    assert [processes.output("-c", KERNELS + CACHED, tmp_path).split() for _ in range(2)] == [["0", "0"], ["1", "1"]]
