"""numba_kernel: threads, the GIL, and what ten thousand calls leave behind."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numba
import numpy as np

from bridge import numba_kernel
from bridge.ffi.target import CPU

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


def test_threads_that_trace_one_kernel_at_once_share_one_compilation():
    @numba.njit
    def fresh(x, out):
        for i in range(x.size):
            out[i] = x[i] + 41

    before = len(CPU)
    with ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda _: numba_kernel(fresh, Spec((4,), np.float32))(jnp.ones(4)), range(8))
        np.testing.assert_array_equal([*results], np.full((8, 4), 42))
    assert len(CPU) == before + 1
