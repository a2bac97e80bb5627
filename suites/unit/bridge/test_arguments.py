"""Wrappers as JAX and tools see them: names of parameters, and errors that are raised where JAX words its own."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from bridge import jax_kernel, numba_kernel
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
OUT = Spec((4,), np.float32)


class TestNames:
    def test_a_signature_has_the_inputs(self):
        assert list(inspect.signature(numba_kernel(kernels.add, OUT)).parameters) == ["x", "y"]
        assert list(inspect.signature(numba_kernel(kernels.outer, [OUT, OUT])).parameters) == ["x", "y"]
        assert list(inspect.signature(numba_kernel(kernels.add, lambda a, b: a)).parameters) == ["x", "y"]

    def test_a_signature_of_warp_has_the_values_and_the_options_of_a_call(self):
        parameters = inspect.signature(jax_kernel(warp_kernels.scale)).parameters
        assert list(parameters) == ["x", "factor", "launch_dims", "output_dims", "vmap_method"]

    def test_name_and_documentation_are_those_of_the_kernel(self):
        wrapped = numba_kernel(kernels.outer, [OUT, OUT])
        assert wrapped.__name__ == "outer"
        assert wrapped.__doc__ == "Rank 1 and rank 0 in, rank 2 and rank 0 out."


def test_outs_gets_shapes_and_dtypes_at_each_trace_and_costs_nothing_after():
    seen = []

    def outs(x, y):
        seen.append((x.shape, x.dtype, y.shape))
        return Spec(x.shape, x.dtype)

    wrapped = numba_kernel(kernels.add, outs)
    for size in (4, 4, 7, 4):
        x = jnp.arange(float(size))
        np.testing.assert_array_equal(wrapped(x, x), 2 * x)
    assert [shape for shape, _, _ in seen] == [(4,), (7,)]
