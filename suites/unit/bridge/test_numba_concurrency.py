"""numba_kernel: threads, the GIL, and what ten thousand calls leave behind."""

import os
import textwrap
import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from bridge import numba_kernel, openmp
from bridge.ffi.target import CPU
from suites.unit import processes
from suites.unit.bridge import kernels

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


STRESS = textwrap.dedent(
    """
    import threading, jax, jax.numpy as jnp, numba, numpy as np
    from bridge import numba_kernel

    @numba.njit(parallel=True)
    def kernel(x, out):
        for i in numba.prange(x.size):
            v = x[i]
            for _ in range(50):
                v = v * 0.5 + 1
            out[i] = v

    call = numba_kernel(kernel, jax.ShapeDtypeStruct((5000,), np.float32))
    inputs = [jax.device_put(jnp.arange(5000.0), device) for device in jax.devices("cpu")]
    expected = np.asarray(call(inputs[0]))
    wrong = []

    def work(x):
        for _ in range(40):
            if not np.array_equal(np.asarray(call(x)), expected):
                wrong.append(x.device)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs * 2]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(numba.threading_layer(), len(wrong))
    """
)


@pytest.mark.parametrize("layer", processes.THREADING_LAYERS)
def test_parallel_kernels_from_many_threads_and_devices(layer):
    processes.require_threading_layer(layer)
    flags = "--xla_force_host_platform_device_count=4"
    printed = processes.output("-c", STRESS, NUMBA_THREADING_LAYER=layer, XLA_FLAGS=flags, OMP_WAIT_POLICY="passive")
    assert printed.split() == [layer, "0"]


@pytest.mark.parametrize(
    ("spins", "policy", "seen"),
    [
        pytest.param(None, None, str(openmp.spins()), id="unset"),
        pytest.param("7", None, "7", id="spins set"),
        pytest.param(None, "active", "None", id="policy set"),
        pytest.param("7", "active", "7", id="both set"),
    ],
)
def test_openmp_spins_for_a_short_while_unless_the_user_has_said_how_long(spins, policy, seen):
    program = "import bridge, os, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'numba.np.ufunc.omppool' in sys.modules)"
    # OpenMP reads the variable when it is loaded, which must come later.
    assert processes.output("-c", program, GOMP_SPINCOUNT=spins, OMP_WAIT_POLICY=policy) == f"{seen} False"


def test_openmp_does_not_spin_on_few_processors(monkeypatch):
    for processors, expected in ((1, 0), (openmp.FEW, 0), (openmp.FEW + 1, openmp.SPINS)):
        monkeypatch.setattr(openmp.os, "sched_getaffinity", lambda pid, n=processors: set(range(n)), raising=False)
        assert openmp.spins() == expected


def test_threads_that_trace_one_kernel_at_once_share_one_compilation():
    @numba.njit
    def fresh(x, out):
        for i in range(x.size):
            out[i] = x[i] + 41

    results, before = [], len(CPU)

    def work():
        results.append(numba_kernel(fresh, Spec((4,), np.float32))(jnp.ones(4)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(results) == 8
    assert all(np.array_equal(result, [42] * 4) for result in results)
    assert len(CPU) == before + 1


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads memory from /proc")
@pytest.mark.parametrize("wrap", ["once", "the same kernel each time"])
def test_ten_thousand_calls_neither_leak_nor_compile_again(wrap):
    x, spec = jnp.ones(16), Spec((16,), np.float32)
    once = numba_kernel(kernels.double, spec)

    call = {
        "once": lambda: once(x),
        "the same kernel each time": lambda: numba_kernel(kernels.double, spec)(x),
    }[wrap]
    for _ in range(1000):
        call()
    entries, memory = len(CPU), resident_mb()
    for _ in range(10_000):
        call()
    assert len(CPU) == entries
    assert resident_mb() - memory < 30


def test_release_drops_what_nothing_uses_and_spares_the_rest():
    @numba.njit
    def temporary(x, out):
        for i in range(x.size):
            out[i] = x[i] - 17

    spec, x = Spec((4,), np.float32), jnp.ones(4)
    kept = numba_kernel(kernels.double, spec)
    kept(x)
    np.testing.assert_array_equal(numba_kernel(temporary, spec)(x), [-16] * 4)
    dispatcher = weakref.ref(temporary)
    del temporary
    jax.clear_caches()
    assert bridge.release() >= 1
    assert dispatcher() is None
    assert numba_kernel(kernels.double, spec) is not kept
    np.testing.assert_array_equal(kept(x), [2] * 4)


def test_a_compiled_program_keeps_its_kernel_through_release():
    @numba.njit
    def kept_by_program(x, out):
        for i in range(x.size):
            out[i] = x[i] + 23

    spec, x = Spec((4,), np.float32), jnp.ones(4)
    compiled = jax.jit(lambda x: numba_kernel(kept_by_program, spec)(x)).lower(x).compile()
    bridge.release()
    np.testing.assert_array_equal(compiled(x), [24] * 4)
