"""jax_kernel: what is compiled once, what is compiled again, what is kept, and what runs although nothing uses it."""

import gc
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import jax_kernel
from bridge.ffi.target import CPU
from bridge.languages.warp import programs
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)


@pytest.fixture
def compiled():
    """Names of the programs that JAX compiles, as a list that grows."""
    names = []

    class Names(logging.Handler):
        def emit(self, record):
            if record.msg.startswith("Compiling"):
                names.append(str(record.args[0]))

    logger, handler = logging.getLogger("jax"), Names()
    logger.addHandler(handler)
    with jax.log_compiles():
        yield names
    logger.removeHandler(handler)


def adding(amount):
    """A kernel of the same name each time, in one Warp module."""

    @wp.kernel(enable_backward=False)
    def add(x: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        out[i] = x[i] + wp.static(amount)

    return add


class TestPrograms:
    def test_a_hundred_eager_calls_compile_once(self, compiled):
        x = jnp.arange(21.0)
        call, entries = jax_kernel(kernels.scale), len(CPU)
        for _ in range(100):
            call(x, 7.25)
        assert len([name for name in compiled if "scale" in name]) == 1
        assert len(CPU) == entries + 1

    def test_an_equal_wrapper_shares_the_program(self, compiled):
        x = jnp.arange(22.0)
        for _ in range(3):
            jax_kernel(kernels.scale)(x, 7.5)
            jax_kernel(kernels.scale, launch_dims=None, output_dims=None, in_out_argnames=[])(x, np.float64(7.5))
            jax_kernel(kernels.scale)(x, 7.5, launch_dims=22)
            jax_kernel(kernels.scale, launch_dims=(22,))(x, 7.5)
        # With the launch inferred, and with it given.
        assert len([name for name in compiled if "scale" in name]) == 2

    def test_nan_is_a_value_like_any_other(self, compiled):
        x, call = jnp.arange(23.0), jax_kernel(kernels.scale)
        for _ in range(3):
            assert np.isnan(call(x, float("nan"))[0]).all()
        assert len([name for name in compiled if "scale" in name]) == 1

    def test_another_value_shape_or_dtype_is_another_program_of_the_same_machine_code(self, monkeypatch):
        call = jax_kernel(kernels.scale)
        call(X, 1.0)
        loads, load = [], wp.Module.load
        monkeypatch.setattr(wp.Module, "load", lambda *args: loads.append(load(*args)) or loads[-1])
        for size, factor in ((31, 2.0), (32, 2.0), (31, 3.0)):
            np.testing.assert_array_equal(call(jnp.ones(size), factor)[0], np.full(size, factor))
        assert loads
        assert len({id(module) for module in loads}) == 1

    def test_a_wrapper_inside_jit_is_not_compiled_apart(self, compiled):
        step = jax.jit(lambda x: jax_kernel(kernels.scale)(x, 9.0)[0] + 1)
        for _ in range(3):
            step(jnp.arange(24.0))
        assert not [name for name in compiled if "scale" in name]

    def test_values_are_kept_apart_also_beyond_those_found_most_quickly(self, monkeypatch):
        monkeypatch.setattr(programs, "_RECENT_KEPT", 2)
        call, x = jax_kernel(kernels.scale), jnp.ones(1)
        factors = [0.0, 1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 4.0]
        assert [float(call(x, factor)[0][0]) for factor in factors] == factors


class TestRedefinition:
    def test_a_kernel_of_the_same_name_takes_effect(self):
        for amount in (1.0, 2.0, 1.0):
            np.testing.assert_array_equal(jax_kernel(adding(amount))(X)[0], X + amount)

    def test_the_one_before_goes_on_as_it_was(self):
        first = jax_kernel(adding(3.0))
        program = jax.jit(lambda x: first(x)[0]).lower(X).compile()
        np.testing.assert_array_equal(first(X)[0], X + 3)
        second = jax_kernel(adding(4.0))
        np.testing.assert_array_equal(second(X)[0], X + 4)
        np.testing.assert_array_equal(program(X), X + 3)
        for size in (2, 3):
            np.testing.assert_array_equal(first(jnp.ones(size))[0], np.full(size, 4))
            np.testing.assert_array_equal(second(jnp.ones(size))[0], np.full(size, 5))

    def test_a_program_keeps_machine_code_that_warp_has_unloaded(self):
        kernel = adding(5.0)
        call = jax_kernel(kernel)
        program = jax.jit(lambda x: call(x)[0]).lower(X).compile()
        kernel.module.unload()
        gc.collect()
        jax_kernel(adding(6.0))(X)
        np.testing.assert_array_equal(program(X), X + 5)
        np.testing.assert_array_equal(call(X[:2])[0], X[:2] + 5)

    def test_kernels_that_look_alike_are_told_apart_by_what_they_refer_to(self):
        @wp.func
        def double(x: float):
            return 2.0 * x

        @wp.func
        def triple(x: float):
            return 3.0 * x

        def make(constant=1.0, function=double, static=2.0):
            @wp.kernel(module="unique", enable_backward=False)
            def alike(x: kernels.VECTOR, out: kernels.VECTOR):
                i = wp.tid()
                out[i] = function(x[i]) + constant + wp.static(static)

            return jax_kernel(alike)

        before = len(CPU)
        cases = [
            ({}, 2 * X + 3),
            ({"constant": 5.0}, 2 * X + 7),
            ({"function": triple}, 3 * X + 3),
            ({"static": 9.0}, 2 * X + 10),
        ]
        for options, expected in cases:
            np.testing.assert_array_equal(make(**options)(X)[0], expected)
        assert len(CPU) == before + len(cases)
        np.testing.assert_array_equal(make()(X)[0], 2 * X + 3)
        assert len(CPU) == before + len(cases)


class TestRelease:
    def test_what_nothing_uses_is_dropped_and_the_rest_spared(self):
        kept = jax_kernel(kernels.scale)
        kept(X, 2.0)
        for amount in (17.0, 18.0):
            np.testing.assert_array_equal(jax_kernel(adding(amount))(X)[0], X + amount)
        jax.clear_caches()
        assert bridge.release() >= 2
        np.testing.assert_array_equal(kept(X, 2.0)[0], 2 * X)
        np.testing.assert_array_equal(jax_kernel(adding(17.0))(X)[0], X + 17)

    def test_a_compiled_program_keeps_its_kernel(self):
        compiled = jax.jit(lambda x: jax_kernel(adding(19.0))(x)[0]).lower(X).compile()
        jax.clear_caches()
        bridge.release()
        np.testing.assert_array_equal(compiled(X), X + 19)

    def test_a_wrapper_that_is_held_goes_on_working(self):
        call = jax_kernel(kernels.scale)
        for _ in range(2):
            np.testing.assert_array_equal(call(X, 3.5)[0], 3.5 * X)
            np.testing.assert_array_equal(call(X, 3.5, launch_dims=4)[0], 3.5 * X)
            bridge.release()
            jax.clear_caches()


class TestSideEffects:
    """The kernel counts its threads in memory that belongs to no array."""

    @pytest.fixture
    def count(self):
        return np.zeros(1, np.int32)

    def run(self, count, transform, **options):
        call = jax_kernel(kernels.tick, **options)

        def program(x):
            call(count.ctypes.data, x)
            return x + 1

        result = transform(program)(X)
        jax.effects_barrier()
        jax.block_until_ready(result)
        return int(count[0])

    def test_by_default_a_call_whose_results_are_unused_is_dropped(self, count):
        assert self.run(count, jax.jit) == 0

    @pytest.mark.parametrize(
        ("transform", "threads"),
        [
            pytest.param(jax.jit, 4, id="jit"),
            pytest.param(lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x, x])), 12, id="vmap"),
            pytest.param(lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=3), 12, id="scan"),
            pytest.param(lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda _, c: f(c), x), 8, id="loop"),
            pytest.param(lambda f: lambda x: jax.lax.cond(x[0] > 0, f, lambda x: x, x), 4, id="cond"),
            pytest.param(lambda f: lambda x: jax.jit(f).lower(x).compile()(x), 4, id="ahead of time"),
        ],
    )
    def test_with_side_effects_it_runs(self, count, transform, threads):
        assert self.run(count, transform, has_side_effect=True) == threads

    def test_eager_calls_run_once_each(self, count):
        call = jax_kernel(kernels.tick, has_side_effect=True)
        for _ in range(3):
            call(count.ctypes.data, X)[0].block_until_ready()
        assert count[0] == 12
