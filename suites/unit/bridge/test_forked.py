"""A process that is forked after use gets a clear error from every kind of call; other ways to start workers work."""

import os

import pytest

from suites.unit.processes import output

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")

PROGRAM = """
import multiprocessing, os, signal, sys, warnings
import bridge

warnings.simplefilter("ignore")

def wrapped(number, **options):
    import jax, numba, numpy as np

    @numba.njit(**options)
    def add(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] + number

    return bridge.numba_kernel(add, jax.ShapeDtypeStruct((16,), np.float32))

def work(number):
    import jax.numpy as jnp

    return float(wrapped(number)(jnp.zeros(16))[0])

def fork():
    import jax, jax.numpy as jnp

    x, call, loops = jnp.zeros(16), wrapped(1), wrapped(1, parallel=True)
    operator = bridge.XLACustomKernel("operator", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    operator.def_numba_kernel(lambda outs: wrapped(1))
    jitted = jax.jit(lambda x: call(x) * 2)
    ahead = jitted.lower(x).compile()
    ways = {
        "eager": lambda: call(x), "parallel": lambda: loops(x), "operator": lambda: operator(x),
        "jitted": lambda: jitted(x), "ahead": lambda: ahead(x),
    }
    for way in ways.values():
        way().block_until_ready()
    ways["new kernel"] = lambda: wrapped(2)(x)
    ways["new program"] = lambda: jax.jit(lambda x: call(x) + call(x))(x)
    for name, way in ways.items():
        if (child := os.fork()) == 0:
            signal.alarm(30)
            try:
                way().block_until_ready()
            except bridge.ForkedProcessError as error:
                os._exit("Start workers with" not in str(error))
            except Exception as error:
                os._exit("ForkedProcessError" not in repr(error))
            os._exit(2)
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    print("here", float(jitted(x)[0]))

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):  # "fork" comes first: nothing has used JAX then
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, *pool.map_async(work, [3]).get(timeout=120), flush=True)
    fork()
"""


def test_workers_call_kernels_and_every_call_of_a_process_forked_after_use_is_an_error(tmp_path):
    (tmp_path / "forks.py").write_text(PROGRAM)
    ways = ("eager", "parallel", "operator", "jitted", "ahead", "new kernel", "new program")
    expected = ["fork 3.0", "spawn 3.0", "forkserver 3.0", *(f"{way} 0" for way in ways), "here 2.0"]
    assert output(tmp_path / "forks.py").splitlines() == expected
