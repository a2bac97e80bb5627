"""numba_kernel: parallel loops, wherever the kernel has them: in itself, in helpers, in loops of other loops."""

import os
import textwrap

import pytest

from suites.unit import processes

KERNELS = """
import ctypes, threading
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import numba_kernel

SIZE = 300

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
def serial(x, out):
    helper(x, out)

@numba.njit
def deeper(x, out):
    serial(x, out)

@numba.njit(parallel=True)
def nested(x, out):
    for i in numba.prange(4):
        y = np.empty_like(out)
        helper(x, y)
        if i == 3:
            out[:] = y

@numba.njit
def recursive(x, out, depth):
    if depth > 0:
        recursive(x, out, depth - 1)
    else:
        helper(x, out)

@numba.njit
def through_recursion(x, out):
    recursive(x, out, 3)

@numba.njit
def through_a_generator(x, out):
    for part in parts(x, out):
        pass

@numba.njit
def parts(x, out):
    for i in range(2):
        helper(x, out)
        yield i

def refuse(v):
    if v == 77 or v == 1:
        raise KeyError("in Python", int(v))
    return int(v)

@numba.njit
def in_python(x, out):
    helper(x, out)
    with numba.objmode(w="int32"):
        w = refuse(x[0])
    out[0] = w

@numba.njit(parallel=True)
def python_in_a_loop(x, out):
    for i in numba.prange(x.size):
        out[i] = one_in_python(x[i])

@numba.njit
def one_in_python(v):
    with numba.objmode(w="int32"):
        w = refuse(v)
    return w

SPEC = jax.ShapeDtypeStruct((SIZE,), np.int32)
GOOD = jnp.zeros(SIZE, np.int32)
BAD = jnp.arange(SIZE, dtype=np.int32)
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


def run(layer, program, **environment):
    """What the kernels above and a program print on one threading layer."""
    processes.require_threading_layer(layer)
    text = KERNELS + textwrap.dedent(program)
    # XLA has a thread for each processor. Only a loop for more threads runs on the layer.
    more = str((os.cpu_count() or 1) + 1)
    variables = {"NUMBA_NUM_THREADS": more, "OMP_WAIT_POLICY": "passive", **environment}
    return processes.output("-c", text, NUMBA_THREADING_LAYER=layer, **variables)


@pytest.mark.parametrize("layer", processes.THREADING_LAYERS)
@pytest.mark.parametrize("kernel", ["helper", "serial", "deeper", "nested", "through_recursion", "through_a_generator"])
def test_an_exception_fails_its_call_and_leaves_nothing_behind(layer, kernel):
    printed = run(
        layer,
        f"""
        call = numba_kernel({kernel}, SPEC)
        for _ in range(20):
            fails(call, BAD, "{kernel} raised ValueError: ('found', 77)")
            assert not call(GOOD).any()
        print("done")
        """,
    )
    assert printed == "done"


@pytest.mark.parametrize("layer", processes.THREADING_LAYERS)
def test_an_exception_in_python_fails_its_call_and_leaves_nothing_behind(layer):
    printed = run(
        layer,
        """
        call, other = numba_kernel(in_python, SPEC), numba_kernel(python_in_a_loop, SPEC)
        large = jax.jit(lambda x: call(x) + call(x + 1))  # on XLA's threads, which have no Python state
        for _ in range(20):
            fails(call, GOOD + 1, "in_python raised KeyError: ('in Python', 1)")
            fails(large, GOOD, "in_python raised KeyError: ('in Python', 1)")
            fails(other, BAD, "python_in_a_loop raised KeyError: ('in Python', ")
            assert not call(GOOD).any() and not other(GOOD).any()
        print("done")
        """,
    )
    assert printed == "done"


@pytest.mark.parametrize("layer", processes.THREADING_LAYERS)
@pytest.mark.parametrize("kernel", ["helper", "serial", "nested"])
def test_calls_that_fail_do_not_fail_others_at_the_same_time(layer, kernel):
    printed = run(
        layer,
        f"""
        call = numba_kernel({kernel}, SPEC)
        assert not call(GOOD).any()
        wrong = []

        def good(device):
            x = jax.device_put(GOOD, device)
            for _ in range(60):
                try:
                    if np.asarray(call(x)).any():
                        wrong.append("a wrong result")
                except Exception as error:
                    wrong.append(error)

        def bad(device):
            x = jax.device_put(BAD, device)
            for _ in range(60):
                try:
                    fails(call, x, "{kernel} raised ValueError: ('found', 77)")
                except Exception as error:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(device,)) for device in jax.devices() for work in (good, bad)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(threads), wrong)
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=3",
    )
    assert printed == "6 []"


def test_an_exception_that_cannot_be_described():
    printed = run(
        "workqueue",
        """
        class Silent(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        @numba.njit
        def silent(x, out):
            raise Silent

        fails(numba_kernel(silent, SPEC), GOOD, "silent raised ")
        print("done")
        """,
    )
    assert printed == "done"


CACHED = textwrap.dedent(
    """
    import sys, warnings
    import jax, jax.numpy as jnp, numpy as np
    sys.path.insert(0, sys.argv[1])
    import cached_kernels
    from bridge import numba_kernel

    x = jnp.arange(5.0)
    for kernel in (cached_kernels.parallel, cached_kernels.calls_parallel, cached_kernels.fails):
        call = numba_kernel(kernel, jax.ShapeDtypeStruct((5,), np.float32))
        try:
            print(np.asarray(call(x)).tolist())
        except jax.errors.JaxRuntimeError as error:
            print(error)
    kernels = (cached_kernels.parallel, cached_kernels.calls_parallel, cached_kernels.fails)
    print(*(sum(kernel.stats.cache_hits.values()) for kernel in kernels))
    """
)

CACHED_KERNELS = textwrap.dedent(
    """
    import numba

    @numba.njit(parallel=True, cache=True)
    def parallel(x, out):
        for i in numba.prange(x.size):
            out[i] = 2 * x[i]

    @numba.njit(cache=True)
    def calls_parallel(x, out):
        parallel(x, out)

    @numba.njit(parallel=True, cache=True)
    def fails(x, out):
        for i in numba.prange(x.size):
            if x[i] == 3:
                raise ValueError("three")
            out[i] = x[i]
    """
)


@pytest.mark.parametrize("layer", processes.THREADING_LAYERS)
def test_a_second_process_takes_parallel_kernels_from_numbas_cache(layer, tmp_path):
    processes.require_threading_layer(layer)
    (tmp_path / "cached_kernels.py").write_text(CACHED_KERNELS)
    doubled = "[0.0, 2.0, 4.0, 6.0, 8.0]"
    for hits in ("0 0 0", "1 1 1"):
        printed = processes.output("-c", CACHED, tmp_path, NUMBA_THREADING_LAYER=layer).splitlines()
        assert printed[:2] == [doubled, doubled]
        assert "fails raised ValueError: three" in printed[2]
        assert printed[3] == hits
