"""Wrappers as JAX and tools see them: names of parameters, and errors that are raised where JAX words its own."""

import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel, numba_kernel
from bridge.signature.arguments import Traced
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
OUT = Spec((4,), np.float32)
X = jnp.arange(4.0)


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
        assert "outer(x, y, /)" in repr(wrapped).replace("kernel ", "")

    def test_programs_name_their_arguments_alike(self):
        assert "name=add" in str(jax.make_jaxpr(numba_kernel(kernels.add, OUT))(X, X))


class TestRefusals:
    """The refusal of one call has no part in another."""

    def test_a_call_after_a_refused_one_works(self):
        wrapped = numba_kernel(kernels.copy, OUT)
        with pytest.raises(SignatureError, match="is a str"):
            wrapped("text")
        np.testing.assert_array_equal(wrapped(X), X)

    def test_python_numbers_are_arrays(self):
        wrapped = numba_kernel(kernels.copy, OUT)
        for value in (2, 2.0, True, np.float32(2), np.array(2.0)):
            np.testing.assert_array_equal(wrapped(value), np.full(4, value))

    def test_a_number_that_is_too_large_is_jax_error(self):
        with pytest.raises(OverflowError, match="argument path is x"):
            numba_kernel(kernels.copy, OUT)(2**70)

    def test_text_of_a_function_is_harmless_elsewhere(self):
        wrapped = numba_kernel(kernels.copy, OUT)
        inspect.signature(wrapped).bind("text")  # remembered, but nobody handles an error
        assert "copy" in repr(wrapped)
        traced = Traced(lambda x: x, "other", ["x"], lambda args: None)
        try:
            raise TypeError("some other")
        except TypeError:
            assert repr(traced) == "<kernel other(x, /)>"


class TestOutsFunction:
    def test_it_gets_shapes_and_dtypes_at_each_trace_and_costs_nothing_after(self):
        seen = []

        def outs(x, y):
            seen.append((x.shape, x.dtype, y.shape))
            return Spec(x.shape, x.dtype)

        wrapped = numba_kernel(kernels.add, outs)
        for size in (4, 4, 7, 4):
            x = jnp.arange(float(size))
            np.testing.assert_array_equal(wrapped(x, x), 2 * x)
        assert [shape for shape, _, _ in seen] == [(4,), (7,)]

    def test_any_structure_of_results(self):
        wrapped = numba_kernel(kernels.outer, lambda x, y: {"a": Spec((x.size, x.size), x.dtype), "b": y})
        got = wrapped(X, 1.0)
        np.testing.assert_array_equal(got["a"], jnp.outer(X, X) + 1)
        np.testing.assert_array_equal(got["b"], (jnp.outer(X, X) + 1).sum())

    def test_under_transformations(self):
        wrapped = numba_kernel(kernels.square, lambda x: x)
        np.testing.assert_array_equal(jax.vmap(wrapped)(jnp.stack([X, X + 1])), jnp.stack([X, X + 1]) ** 2)
        np.testing.assert_array_equal(jax.jit(wrapped)(X), X * X)
        assert wrapped.eval_shape(Spec((9,), np.float32)).shape == (9,)

    def test_any_number_of_inputs(self):
        wrapped = numba_kernel(kernels.add, lambda *arrays: arrays[0])
        np.testing.assert_array_equal(wrapped(X, X), 2 * X)
        with pytest.raises(SignatureError, match=r"add\(x, y, out\) got 1 inputs"):
            wrapped(X)

    def test_an_error_of_ours_in_it_is_left_alone(self):
        def outs(x):
            raise SignatureError("rows must be even")

        with pytest.raises(SignatureError, match=r"^rows must be even"):
            numba_kernel(kernels.copy, outs)(X)

    def test_other_errors_keep_their_cause(self):
        with pytest.raises(SignatureError) as caught:
            numba_kernel(kernels.copy, lambda x: x.no_such)(X)
        assert isinstance(caught.value.__cause__, AttributeError)

    def test_a_container_that_can_be_called_is_a_container(self):
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class Result:
            y: Any

            def __call__(self): ...

        result = numba_kernel(kernels.copy, Result(OUT))(X)
        assert isinstance(result, Result)
        np.testing.assert_array_equal(result.y, X)
