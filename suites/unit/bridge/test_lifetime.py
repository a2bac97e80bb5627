"""Programs can always run their kernels, whatever has been released, and what is dropped gives its memory back."""

import gc
import weakref

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from bridge import numba_kernel

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
