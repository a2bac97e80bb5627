"""jax_kernel: what is compiled once, what is compiled again, what is kept, and what runs although nothing uses it."""

import gc
import logging
import weakref

import jax
import jax.numpy as jnp
import numpy as np

import bridge
from bridge import jax_kernel
from bridge.ffi.target import CPU
from bridge.languages.warp import warp_wrapper, wrapping
from bridge.languages.warp.warp_language import define
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)


def adding(amount):
    """A kernel of the same name each time, in one Warp module."""

    @wp.kernel(enable_backward=False)
    def add(x: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        out[i] = x[i] + wp.static(amount)

    return add


class TestPrograms:
    def test_a_hundred_eager_calls_compile_once(self, caplog):
        x = jnp.arange(21.0)
        call, entries = jax_kernel(kernels.scale), len(CPU)
        with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
            for _ in range(100):
                call(x, 7.25)
        assert sum("Compiling jit(scale)" in text for text in caplog.messages) == 1
        assert len(CPU) == entries + 1

    def test_values_are_kept_apart_also_beyond_those_that_a_wrapper_keeps(self, monkeypatch):
        monkeypatch.setattr(warp_wrapper, "PROGRAMS_KEPT", 2)
        call, x = jax_kernel(kernels.scale), jnp.ones(1)
        factors = [0.0, 1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 4.0]
        assert [float(call(x, factor)[0][0]) for factor in factors] == factors

    def test_as_many_values_as_a_wrapper_keeps_are_traced_once(self, monkeypatch):
        monkeypatch.setattr(warp_wrapper, "PROGRAMS_KEPT", 2)
        made, original = [], wrapping._program
        monkeypatch.setattr(wrapping, "_program", lambda *args: made.append(args) or original(*args))
        call, x = jax_kernel(kernels.scale), jnp.ones(1)
        for factor in (0.5, 1.5) * 3:
            call(x, factor)
        assert len(made) == 2


def test_a_program_keeps_machine_code_that_warp_has_unloaded():
    kernel = adding(5.0)
    call = jax_kernel(kernel)
    program = jax.jit(lambda x: call(x)[0]).lower(X).compile()
    kernel.module.unload()
    gc.collect()
    jax_kernel(adding(6.0))(X)
    np.testing.assert_array_equal(program(X), X + 5)
    np.testing.assert_array_equal(call(X[:2])[0], X[:2] + 5)


def test_what_nothing_uses_is_dropped_and_the_rest_spared():
    kept = jax_kernel(kernels.scale)
    kept(X, 2.0)
    unused = adding(17.0)
    np.testing.assert_array_equal(jax_kernel(unused)(X)[0], X + 17)
    definition = weakref.ref(define(unused))
    del unused
    adding(18.0)  # Warp itself keeps the latest kernel of a name
    jax.clear_caches()
    assert definition() is not None
    assert bridge.release() >= 1
    assert definition() is None
    np.testing.assert_array_equal(kept(X, 2.0)[0], 2 * X)
    np.testing.assert_array_equal(jax_kernel(adding(17.0))(X)[0], X + 17)
