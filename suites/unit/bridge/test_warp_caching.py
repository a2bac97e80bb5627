"""jax_kernel: what is compiled once or again, what is kept, and by what a kernel is known in every process."""

import gc
import logging
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import jax_kernel
from bridge.ffi.target import CPU
from bridge.languages.warp import wrapper
from bridge.languages.warp.generated import generated
from bridge.languages.warp.jax_kernel import define
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
        monkeypatch.setattr(wrapper, "PROGRAMS_KEPT", 2)
        call, x = jax_kernel(kernels.scale), jnp.ones(1)
        factors = [0.0, 1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 4.0]
        assert [float(call(x, factor)[0][0]) for factor in factors] == factors


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


# What a kernel refers to. A test replaces it after the kernel is wrapped.
CONSTANT = wp.constant(2.0)


def digest_of(kernel, platform, block_dim):
    return generated(kernel, platform, block_dim).digest


def uses_constant(x: kernels.VECTOR64, out: kernels.VECTOR64):
    out[wp.tid()] = wp.float64(CONSTANT)


def test_another_result_is_another_identity(monkeypatch):
    """What a kernel refers to changes between wrap and trace."""
    with jax.enable_x64(True):
        kernel = kernels.forward_only(uses_constant)
        call = jax_kernel(kernel)
        before, result = digest_of(kernel, "cpu", None), call(jnp.zeros(1, np.float64))[0][0]
        monkeypatch.setitem(globals(), "CONSTANT", 3.0)
        after, other = digest_of(kernel, "cpu", None), call(jnp.zeros(2, np.float64))[0][0]
        assert other != result
        assert after != before
        monkeypatch.undo()
        assert digest_of(kernel, "cpu", None) == before
        assert call(jnp.zeros(3, np.float64))[0][0] == result


def test_kernels_that_differ_beyond_what_warp_hashes(tmp_path):
    """Warp hashes 32 bits of a number. Its cache of compiled modules then has the code of another kernel."""

    def make(value):
        @wp.kernel(module="unique", enable_backward=False)
        def constant(out: kernels.VECTOR64):
            out[wp.tid()] = value

        return jax_kernel(constant, launch_dims=1)

    with jax.enable_x64(True):
        values = [wp.float64(1.0), wp.float64(1.0 + 2.0**-50), wp.float64(1.0 + 2.0**-49)]
        assert [make(value)()[0][0] for value in values] == [value.value for value in values]


def square(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = x[i] * x[i]


@pytest.mark.parametrize(
    ("name", "value"),
    [("mode", "debug"), ("verify_fp", True), ("optimization_level", 1), ("ptx_target_arch", 90),
     ("cpu_compiler_flags", "-ffast-math")],
)  # fmt: skip
def test_a_setting_is_part_of_the_identity(monkeypatch, name, value):
    if not hasattr(wp.config, name):
        pytest.skip(f"this Warp has no setting {name}")
    kernel = kernels.forward_only(square)
    before = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
    monkeypatch.setattr(wp.config, name, value, raising=False)
    after = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
    assert before[0] != after[0]
    assert before[1] != after[1]
    monkeypatch.undo()
    assert before == (digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None))
