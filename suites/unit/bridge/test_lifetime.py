"""Programs can always run their kernels, whatever has been released, and what is dropped gives its memory back."""

import gc
import textwrap
import weakref

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from bridge import numba_kernel
from suites.unit.processes import output

X = jnp.arange(4.0)
SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)


def fresh(offset):
    """A kernel that nothing else refers to."""

    @numba.njit
    def shift(x, out):
        for i in range(x.size):
            out[i] = x[i] + offset

    return shift


def released():
    jax.clear_caches()
    return bridge.release()


def exported(call):
    program = jax.export.export(jax.jit(call), platforms=["cpu"], disabled_checks=bridge.export_checks())(X)
    return jax.export.deserialize(program.serialize())


PROGRAM = textwrap.dedent(
    """
    import threading, jax, jax.export, jax.numpy as jnp, numba, numpy as np
    import bridge

    def define(offset):
        @numba.njit
        def slow(x, out):
            for i in range(x.size):
                value = x[i]
                for _ in range(50):
                    value = np.sin(value)
                out[i] = x[i] + offset + 0 * value
        return bridge.numba_kernel(slow, jax.ShapeDtypeStruct((20_000,), np.float32))

    def released():
        jax.clear_caches()
        bridge.release()

    x = jnp.zeros(20_000)
    programs, results = [], []
    for offset in range(3):
        call = define(float(offset))
        exported = jax.export.export(jax.jit(call), disabled_checks=bridge.export_checks())(x)
        programs.append(jax.export.deserialize(exported.serialize()))
        results.append([call(x) for _ in range(20)])
        del call
        released()
    stop = threading.Event()
    def release():
        while not stop.is_set():
            released()
    thread = threading.Thread(target=release)
    thread.start()
    for _ in range(8):
        for offset, program in enumerate(programs):
            assert float(program.call(x)[-1]) == offset
    stop.set()
    thread.join()
    assert all(float(each[-1]) == offset for offset, some in enumerate(results) for each in some)
    print("ran")
    """
)


def test_release_spares_programs_that_run_and_exported_ones_in_all_threads(tmp_path):
    (tmp_path / "running.py").write_text(PROGRAM)
    assert output(tmp_path / "running.py") == "ran"


def test_a_program_that_never_ran_runs_after_its_kernel_is_dropped_and_released():
    program = exported(numba_kernel(fresh(5.0), SPEC))
    assert released() >= 1
    np.testing.assert_array_equal(program.call(X), X + 5)


def test_a_dropped_kernel_is_collected():
    kernel = fresh(9.0)
    call = numba_kernel(kernel, SPEC)
    np.testing.assert_array_equal(jax.vmap(call)(jnp.ones((3, 4))), np.full((3, 4), 10))
    dead = [weakref.ref(kernel), weakref.ref(call)]
    del kernel, call
    released()
    gc.collect()
    assert [reference() for reference in dead] == [None, None]
