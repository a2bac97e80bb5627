"""Programs can always run their kernels, whatever has been released, and what is dropped gives its memory back."""

import gc
import os
import textwrap
import weakref

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from llvmlite.binding import newpassmanagers
from numba.core.registry import cpu_target

import bridge
from bridge import numba_kernel
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
X = jnp.arange(4.0)
SPEC = Spec(X.shape, X.dtype)


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


DEFINE = textwrap.dedent(
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

    x = jnp.zeros(20_000)
    """
)


def test_release_spares_a_program_that_runs(tmp_path):
    (tmp_path / "running.py").write_text(
        DEFINE
        + textwrap.dedent(
            """
            for offset in range(3):
                results = []
                call = define(float(offset))
                for _ in range(20):
                    results.append(call(x))
                del call
                jax.clear_caches()
                bridge.release()
                assert all(float(result[-1]) == offset for result in results)
            print("ran")
            """
        )
    )
    assert output(tmp_path / "running.py") == "ran"


def test_release_spares_exported_programs_in_all_threads(tmp_path):
    (tmp_path / "exported.py").write_text(
        DEFINE
        + textwrap.dedent(
            """
            programs = []
            for offset in range(2):
                call = define(float(offset))
                exported = jax.export.export(jax.jit(call), disabled_checks=bridge.export_checks())(x)
                programs.append(jax.export.deserialize(exported.serialize()))
                call(x)
                del call
            stop = threading.Event()
            def release():
                while not stop.is_set():
                    jax.clear_caches()
                    bridge.release()
            threads = [threading.Thread(target=release)]
            threads[0].start()
            for _ in range(8):
                for offset, program in enumerate(programs):
                    assert float(program.call(x)[-1]) == offset
            stop.set()
            threads[0].join()
            print("ran")
            """
        )
    )
    assert output(tmp_path / "exported.py") == "ran"


def test_a_program_runs_after_its_kernel_is_dropped_and_released():
    call = numba_kernel(fresh(5.0), SPEC)
    program = exported(call)
    np.testing.assert_array_equal(program.call(X), X + 5)
    del call
    assert released() >= 1
    np.testing.assert_array_equal(program.call(X), X + 5)


def test_a_program_that_never_ran_runs_after_release():
    program = exported(numba_kernel(fresh(7.0), SPEC))
    released()
    np.testing.assert_array_equal(program.call(X), X + 7)


def test_a_dropped_kernel_is_collected():
    kernel = fresh(9.0)
    call = numba_kernel(kernel, SPEC)
    np.testing.assert_array_equal(jax.vmap(call)(jnp.ones((3, 4))), np.full((3, 4), 10))
    dead = [weakref.ref(kernel), weakref.ref(call)]
    del kernel, call
    released()
    gc.collect()
    assert [reference() for reference in dead] == [None, None]


GROWTH = textwrap.dedent(
    """
    import os, jax, numba, numpy as np
    import bridge

    x = np.ones(4, np.float32)

    def define(offset):
        @numba.njit
        def shift(x, out):
            for i in range(x.size):
                out[i] = x[i] + offset
        return shift

    def use(offset):
        bridge.numba_kernel(define(offset), jax.ShapeDtypeStruct((4,), np.float32))(x).block_until_ready()
        jax.clear_caches()
        bridge.release()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for offset in range(5):
        use(float(offset))
    before = resident()
    for offset in range(5, 20):
        use(float(offset))
    print((resident() - before) // 15)
    """
)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads memory from /proc")
def test_a_released_kernel_leaves_little_memory(tmp_path):
    (tmp_path / "growth.py").write_text(GROWTH)
    left = int(output(tmp_path / "growth.py"))
    print(f"bytes for each kernel: {left}")
    assert left < 400_000  # Numba alone leaves 960,000, most of them pass managers that llvmlite does not free


def test_the_pass_managers_of_llvm_are_freed(monkeypatch):
    freed = []
    library = newpassmanagers.ffi.lib
    for name in ("LLVMPY_DisposeNewModulePassManger", "LLVMPY_DisposeNewFunctionPassManger"):
        free = getattr(library, name)
        counted = lambda manager, free=free: (freed.append(type(manager)), free(manager))  # noqa: E731
        monkeypatch.setitem(library._fntab, name, counted)
    numba_kernel(fresh(11.0), SPEC)(X).block_until_ready()
    assert {*freed} == {newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager}


def test_released_kernels_do_not_make_collections_of_garbage_longer():
    def use(offset):
        numba_kernel(fresh(offset), SPEC)(X).block_until_ready()
        released()

    for offset in range(3):
        use(100.0 + offset)
    engine = cpu_target.target_context.codegen()._engine._ee
    before, modules = len(gc.get_objects()), len(engine._modules)
    for offset in range(8):
        use(200.0 + offset)
    # The last kernel leaves what its predecessor left. If each left its plan and its module, there were 112 more.
    assert len(gc.get_objects()) - before < 8
    assert len(engine._modules) <= modules
