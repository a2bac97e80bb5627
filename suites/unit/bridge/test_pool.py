"""Parallel loops run on XLA's threads: right, repeatable, without waiting for threads that are busy."""

import platform
import textwrap

import pytest

from suites.unit import processes

KERNELS = """
import ctypes, os, threading, time
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import numba_kernel

THREADS = numba.config.NUMBA_NUM_THREADS
SIZE = 40_000

@numba.njit(parallel=True)
def total(x, out):
    found = np.float32(0)
    for i in numba.prange(x.size):
        found += x[i]
    out[0] = found

@numba.njit(parallel=True)
def numbers(x, out):
    for i in numba.prange(x.size):
        out[i] = numba.get_thread_id()

@numba.njit(parallel=True)
def nested(x, out):
    for i in numba.prange(out.size):
        found = np.float32(0)
        for j in numba.prange(x.size):
            found += x[j] * i
        out[i] = found

@numba.njit(parallel=True)
def refuse(x, out):
    for i in numba.prange(x.size):
        if x[i] == 77:
            raise ValueError("found", i)
        out[i] = x[i]

def spec(size, dtype=np.float32):
    return jax.ShapeDtypeStruct((size,), dtype)
"""


def run(program, **environment):
    return processes.output("-c", KERNELS + textwrap.dedent(program), **environment)


def test_a_sum_does_not_depend_on_which_thread_takes_which_part():
    printed = run("""
        x = jnp.asarray(np.random.default_rng(0).normal(size=SIZE), np.float32)
        call = numba_kernel(total, spec(1))
        print(len({float(call(x)[0]) for _ in range(3000)}))
        """)
    assert printed == "1"


def test_the_number_of_a_thread_is_the_number_of_the_part_that_it_runs():
    printed = run(
        """
        found = np.asarray(numba_kernel(numbers, spec(SIZE, np.int32))(jnp.zeros(SIZE)))
        print(np.array_equal(found, np.repeat(np.arange(4), SIZE // 4)))
        """,
        NUMBA_NUM_THREADS="4",
        XLA_FLAGS="--xla_force_host_platform_device_count=8",  # XLA has a thread for each device
    )
    assert printed == "True"


def test_no_thread_of_a_threading_layer_is_made():
    printed = run(
        """
        call = numba_kernel(total, spec(1))
        program = jax.jit(lambda x: call(x)[0] + jnp.sort(x).sum())
        x = jnp.ones(SIZE)
        jax.jit(lambda x: jnp.sort(x).sum() + x @ x)(x).block_until_ready()  # XLA has made its threads
        compiled = program.lower(x).compile()
        before = set(os.listdir("/proc/self/task"))  # the first loop on OpenMP makes its threads
        for _ in range(50):
            compiled(x).block_until_ready()
        print(len(set(os.listdir("/proc/self/task")) - before))
        """,
        NUMBA_THREADING_LAYER="omp",
    )
    assert printed == "0"


def test_empty_loops_nested_batches_and_other_devices():
    printed = run(
        """
        call = numba_kernel(total, spec(1))
        print(numba_kernel(numbers, spec(0, np.int32))(jnp.zeros(0)).shape)
        print(jax.vmap(jax.vmap(call))(jnp.arange(6.).reshape(2, 3, 1) * jnp.ones(500)).ravel().tolist())
        second = jax.devices()[1]
        found = call(jax.device_put(jnp.ones(SIZE), second))
        print(float(found[0]), found.devices() == {second})
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert printed.splitlines() == ["(0,)", "[0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0]", "40000.0 True"]


def test_loops_of_many_threads_and_loops_inside_loops_never_wait_for_each_other():
    printed = run(
        """
        import faulthandler; faulthandler.dump_traceback_later(240, exit=True)
        size = 64
        call, inner = numba_kernel(nested, spec(size)), numba_kernel(total, spec(1))
        x = jnp.ones(500)
        expected = 500 * np.arange(size)
        program = jax.jit(lambda x: [call(x + k) - call(x * 1 + k) + call(x) for k in range(6)] + [inner(x)])
        wrong = []
        def work():
            for _ in range(25):
                *results, sum_of_x = program(x)
                wrong.extend(1 for each in results if not np.array_equal(each, expected))
                wrong.extend([1] * (float(sum_of_x[0]) != 500))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(len(wrong))
        """,
    )
    assert printed == "0"


def test_a_thread_that_helps_rounds_as_the_calling_thread_does():
    downward = {"x86_64": 0x400, "aarch64": 0x800000}.get(platform.machine())  # FE_DOWNWARD of fenv.h
    if downward is None:
        pytest.skip("the number of FE_DOWNWARD is not known for this processor")
    printed = run(f"""
        set_rounding = ctypes.CDLL(None).fesetround
        set_rounding.argtypes, set_rounding.restype = [ctypes.c_int], ctypes.c_int

        @numba.njit(parallel=True)
        def thirds(x, out):
            set_rounding({downward})
            for i in numba.prange(out.size):
                y = x[i]
                for _ in range(20_000):  # so that another thread has the time to help
                    y = (y + y) * np.float32(0.5)
                out[i] = y / np.float32(3)
            set_rounding(0)

        call, x = numba_kernel(thirds, spec(64)), jnp.ones(64)
        print(*{{float(value).hex() for _ in range(300) for value in set(np.asarray(call(x)))}})
        """)
    assert printed == "0x1.5555540000000p-2"  # the nearest number is 0x1.555556p-2


def test_an_exception_on_any_thread_fails_its_call():
    printed = run("""
        call = numba_kernel(refuse, spec(SIZE))
        failed = 0
        for index in (0, SIZE - 1):  # in the first part and in the last one
            for _ in range(200):
                try:
                    call(jnp.zeros(SIZE).at[index].set(77)).block_until_ready()
                except (jax.errors.JaxRuntimeError, ValueError) as error:
                    failed += f"ValueError: ('found', {index})" in str(error)
        print(failed, int(np.count_nonzero(call(jnp.zeros(SIZE)))))
        """)
    assert printed == "400 0"


def test_the_memory_of_loops_is_given_back():
    printed = run("""
        call = numba_kernel(total, spec(1))
        x = jnp.ones(2)
        program = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda _, y: jnp.full(2, call(y)[0] / 2), x))
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
        for _ in range(3):
            program(x).block_until_ready()
        before = resident()
        for _ in range(10):
            program(x).block_until_ready()
        print(resident() - before < 8 << 20)  # 200,000 loops of 170 bytes would be 32 MiB
        """)
    assert printed == "True"


@pytest.mark.parametrize("threads", ["1", "64"])
def test_a_loop_for_more_threads_than_xla_has_runs_on_the_threading_layer(threads):
    printed = run(
        """
        found = np.asarray(numba_kernel(numbers, spec(SIZE, np.int32))(jnp.zeros(SIZE)))
        sums = {float(numba_kernel(total, spec(1))(jnp.ones(SIZE))[0]) for _ in range(50)}
        print(found.max() + 1 == THREADS, sums == {float(SIZE)})
        """,
        NUMBA_NUM_THREADS=threads,
        NUMBA_THREADING_LAYER="omp",
    )
    assert printed == "True True"
