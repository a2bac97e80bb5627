"""Checks operators with Warp kernels: one generator serves both platforms, and gives way as the CPU's default."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import XLACustomKernel, jax_kernel, numba_kernel
from suites.unit.bridge import kernels as numba_kernels
from suites.unit.bridge import warp_kernels as kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(4.0)
OUT = Spec((4,), np.float32)


def scale(outs, factor=2.0):
    call = jax_kernel(kernels.scale, launch_dims=outs[0].shape, output_dims=outs[0].shape)
    return lambda x: call(x, factor)


def double(outs, **_):
    return numba_kernel(numba_kernels.double, outs[0])


@pytest.fixture
def op():
    op = XLACustomKernel("scale")
    op.def_warp_kernel(scale)
    return op


class TestDefault:
    def test_alone_it_is_the_default_of_both_platforms(self, op):
        assert op.defaults == {"cpu": "warp", "cuda": "warp"}
        assert op._kernels["cpu"]["warp"] is op._kernels["cuda"]["warp"] is scale
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)

    def test_on_the_cpu_it_gives_way_to_a_compiled_kernel_registered_later(self, op):
        op.def_numba_kernel(double)
        assert op.defaults == {"cpu": "numba", "cuda": "warp"}
        np.testing.assert_array_equal(op(X, outs=OUT, backend="warp", factor=5.0), 5 * X)

    def test_it_does_not_displace_one_registered_earlier(self):
        op = XLACustomKernel("scale")
        op.def_numba_kernel(double)
        op.def_warp_kernel(scale)
        assert op.defaults == {"cpu": "numba", "cuda": "warp"}

    def test_only_the_first_of_several_takes_its_place(self, op):
        op.def_numba_kernel(double)
        op.def_kernel("other", "cpu", double)
        assert op.defaults["cpu"] == "numba"

    def test_as_default_it_stays(self):
        op = XLACustomKernel("scale")
        op.def_warp_kernel(scale, asdefault=True)
        op.def_numba_kernel(double)
        assert op.defaults == {"cpu": "warp", "cuda": "warp"}

    def test_as_default_it_displaces_one_registered_earlier(self):
        op = XLACustomKernel("scale")
        op.def_numba_kernel(double)
        op.def_numba_cuda_kernel(double)
        op.def_warp_kernel(scale, asdefault=True)
        assert op.defaults == {"cpu": "warp", "cuda": "warp"}

    def test_once_chosen_it_stays(self, op):
        op.set_default("cpu", "warp")
        op.def_numba_kernel(double)
        assert op.defaults["cpu"] == "warp"

    def test_registered_again_it_is_replaced_and_still_gives_way(self, op):
        op.def_warp_kernel(lambda outs, factor=2.0: scale(outs, factor=10 * factor))
        np.testing.assert_array_equal(op(X, outs=OUT), 20 * X)
        op.def_numba_kernel(double)
        assert op.defaults == {"cpu": "numba", "cuda": "warp"}


def test_results_are_those_of_the_kernel_under_transformations(op):
    def call(x):
        return op(x, outs=OUT, factor=3.0)

    xs = jnp.stack([X, 2 * X])
    np.testing.assert_array_equal(jax.jit(call)(X), 3 * X)
    np.testing.assert_array_equal(jax.vmap(call)(xs), 3 * xs)
    text = jax.jit(jax.vmap(call)).lower(xs).compile().as_text()
    assert text.count('custom_call_target="bridge_cpu"') == 1
    assert "scale[cpu: warp, cuda: warp]" in str(jax.make_jaxpr(call)(X))


def test_a_program_for_both_platforms_has_a_call_for_each(op):
    exported = jax.export.export(
        jax.jit(lambda x: op(x, outs=OUT)),
        platforms=("cpu", "cuda"),
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(name) for name in ("bridge_cpu", "bridge_cuda")],
    )(X)
    assert [exported.mlir_module().count(f"@{name}(") for name in ("bridge_cpu", "bridge_cuda")] == [1, 1]
    np.testing.assert_array_equal(exported.call(X), 2 * X)
