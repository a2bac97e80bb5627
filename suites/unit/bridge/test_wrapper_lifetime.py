"""A wrapper that nobody holds frees what it holds; one that is made anew by the same line is the one that exists."""

import ctypes
import gc
import logging
import types
import weakref

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from suites.kernels.warp.blocks import wp
from suites.unit.bridge.kernels import double, like

X = jnp.arange(4.0)
VECTOR = wp.array(dtype=float)
MEMCPY = ctypes.CDLL(None).memcpy
SIZE = 0


@wp.kernel
def warp_double(x: VECTOR, out: VECTOR):
    i = wp.tid()
    out[i] = 2.0 * x[i]


def warp_kernel(n):
    @wp.kernel
    def scale(x: VECTOR, out: VECTOR):
        i = wp.tid()
        out[i] = 2.0 * x[i]

    return scale


def launcher(n):
    def launch(x: VECTOR, out: VECTOR):
        assert n >= 0
        wp.launch(warp_double, dim=x.shape, inputs=[x], outputs=[out])

    return launch


@numba.njit
def first(x, out):
    out[:] = x[: out.size]


def operator(generator):
    made = bridge.XLACustomKernel("made_in_a_loop", outs=like)
    made.def_numba_kernel(generator)
    return made


MAKERS = {
    "numba_kernel": lambda n: bridge.numba_kernel(double, lambda x: jax.ShapeDtypeStruct((n,), x.dtype)),
    "jax_kernel": lambda n: bridge.jax_kernel(warp_kernel(n)),
    "warp_callable": lambda n: bridge.warp_callable(launcher(n)),
    "XLACustomKernel": lambda n: operator(lambda outs: bridge.numba_kernel(double, [*outs] * (n > 0))),
}  # fmt: skip
"""Wrappers and operators of their own each time: what makes them takes a number from around it."""


def live_programs():
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_programs_of_wrappers_that_nobody_holds_are_freed(make):
    make(X.size)(X)  # what is compiled once
    before, made, last = live_programs(), 36, None
    for _ in range(made):
        wrapper = make(X.size)
        wrapper(X)
        last = weakref.ref(wrapper)
    del wrapper
    assert live_programs() - before <= 33
    bridge.release()
    gc.collect()
    assert last() is None
    assert live_programs() - before <= 1


def test_a_wrapper_that_the_same_line_makes_again_is_compiled_once(caplog):
    def step(x):
        scaled = bridge.numba_kernel(double, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        return bridge.native_kernel(MEMCPY, lambda x: x, lambda x, out: (out, x, x.nbytes))(scaled)

    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        for _ in range(5):
            np.testing.assert_array_equal(step(X), 2 * X)
    compiled = [text for text in caplog.messages if "Compiling jit(double)" in text or "Compiling jit(memcpy)" in text]
    assert len(compiled) == 2


def test_a_line_that_runs_again_reads_its_variables_again(monkeypatch):
    kept = types.SimpleNamespace()
    for n in (1, 2, 3):
        kept.n = n
        monkeypatch.setitem(globals(), "SIZE", n)
        for outs in (
            lambda x: jax.ShapeDtypeStruct((n,), x.dtype),  # noqa: B023
            lambda x, n=n: jax.ShapeDtypeStruct((n,), x.dtype),
            lambda x, *, n=n: jax.ShapeDtypeStruct((n,), x.dtype),
            lambda x: jax.ShapeDtypeStruct((SIZE,), x.dtype),
            lambda x: jax.ShapeDtypeStruct((kept.n,), x.dtype),
            lambda x: next(jax.ShapeDtypeStruct((SIZE,), dtype) for dtype in [x.dtype]),
        ):
            assert bridge.numba_kernel(first, outs)(X).shape == (n,)


def test_an_object_whose_method_says_the_outputs_of_its_own_kernel_is_collected():
    class Layer:
        def __init__(self):
            self.call = bridge.numba_kernel(double, self.outs)

        def outs(self, x):
            return like(x)

    held = bridge.numba_kernel(double, like(X))  # keeps the definition of the kernel
    layer = Layer()
    np.testing.assert_array_equal(layer.call(X), held(X))
    dead = weakref.ref(layer)
    del layer
    bridge.release()
    gc.collect()
    assert dead() is None


def test_a_kernel_of_a_dropped_wrapper_is_collected_and_an_exported_program_still_runs_it():
    """Also a program that never ran, and without clearing what JAX keeps."""

    def used():
        @numba.njit
        def triple(x, out):
            for i in range(x.size):
                out[i] = 3 * x[i]

        call = bridge.numba_kernel(triple, like(X))
        np.testing.assert_array_equal(jax.jit(lambda x: call(x) + 1)(X), 3 * X + 1)
        np.testing.assert_array_equal(jax.vmap(call)(X[None]), 3 * X[None])
        program = jax.export.export(jax.jit(call), platforms=["cpu"], disabled_checks=bridge.export_checks())(X)
        return weakref.ref(triple), jax.export.deserialize(program.serialize())

    kernel, program = used()
    bridge.release()
    gc.collect()
    assert kernel() is None
    np.testing.assert_array_equal(program.call(X), 3 * X)
