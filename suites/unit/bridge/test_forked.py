"""A process that is forked after use gets a clear error from every kind of call; other ways to start workers work."""

import os
import textwrap

import pytest

import bridge
from suites.unit.processes import output

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")

FORKS = textwrap.dedent(
    """
    import os, signal, warnings
    import jax, jax.numpy as jnp, numba, numpy as np, bridge
    warnings.simplefilter("ignore")

    @numba.njit
    def one(x, out):
        for i in range(x.size):
            out[i] = x[i] + 1

    @numba.njit(parallel=True)
    def parallel(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] + 1

    @numba.njit
    def new(x, out):
        for i in range(x.size):
            out[i] = x[i] + 1

    spec = jax.ShapeDtypeStruct((16,), np.float32)
    x = jnp.zeros(16)
    call, loops = bridge.numba_kernel(one, spec), bridge.numba_kernel(parallel, spec)
    operator = bridge.XLACustomKernel("operator", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    operator.def_numba_kernel(lambda outs: bridge.numba_kernel(one, outs[0]))
    jitted = jax.jit(lambda x: call(x) * 2)
    ahead = jitted.lower(x).compile()
    ways = {
        "eager": lambda: call(x), "parallel": lambda: loops(x), "operator": lambda: operator(x),
        "jitted": lambda: jitted(x), "ahead": lambda: ahead(x),
    }
    for way in ways.values():
        way().block_until_ready()
    ways["new kernel"] = lambda: bridge.numba_kernel(new, spec)(x)
    ways["new program"] = lambda: jax.jit(lambda x: call(x) + call(x))(x)
    for name, way in ways.items():
        if (child := os.fork()) == 0:
            signal.alarm(30)
            try:
                way().block_until_ready()
            except Exception as error:
                clear = "ForkedProcessError" in repr(error) and "Start workers with" in str(error)
                os._exit(0 if clear else 1)
            os._exit(2)
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    print("here", float(jitted(x)[0]))
    """
)

WORKERS = textwrap.dedent(
    """
    import multiprocessing, os, sys, warnings
    import bridge

    def work(number):
        import jax, jax.numpy as jnp, numba, numpy as np

        @numba.njit
        def add(x, out):
            for i in range(x.size):
                out[i] = x[i] + number

        return float(bridge.numba_kernel(add, jax.ShapeDtypeStruct((4,), np.float32))(jnp.zeros(4))[0])

    if __name__ == "__main__":
        warnings.simplefilter("ignore")
        for method in sys.argv[1:]:
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(method, pool.map_async(work, [3]).get(timeout=120))
    """
)


def test_every_call_after_a_fork_fails_with_a_clear_error_and_the_parent_goes_on(tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    lines = output(tmp_path / "forks.py").splitlines()
    ways = ("eager", "parallel", "operator", "jitted", "ahead", "new kernel", "new program")
    assert lines == [*(f"{way} 0" for way in ways), "here 2.0"]


def test_a_process_that_is_forked_before_use_and_one_that_is_spawned_call_kernels(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    # "fork" comes first: nothing has used JAX then.
    lines = output(tmp_path / "workers.py", "fork", "spawn", "forkserver").splitlines()
    assert lines == ["fork [3.0]", "spawn [3.0]", "forkserver [3.0]"]


def test_the_error_is_a_runtime_error_of_the_bridge():
    assert issubclass(bridge.ForkedProcessError, bridge.errors.BridgeError)
    assert issubclass(bridge.ForkedProcessError, RuntimeError)
