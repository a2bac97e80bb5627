"""numba_kernel under every JAX transformation."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import DifferentiationError, numba_kernel
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(8.0)
double = numba_kernel(kernels.double, Spec((8,), np.float32))
METHODS = [None, "broadcast_all", "sequential", "sequential_unrolled"]


def test_differentiation_without_a_rule_says_how_to_attach_one():
    for differentiate in (
        lambda: jax.jvp(double, (X,), (X,)),
        lambda: jax.jit(jax.grad(lambda x: jax.vmap(double)(jnp.stack([x, x])).sum()))(X),
        lambda: jax.linear_transpose(double, X)(X),
    ):
        with pytest.raises(DifferentiationError, match=r"double has no derivative.*jax\.custom_vjp"):
            differentiate()


def test_integer_results_have_the_derivative_zero():
    @numba.njit
    def whole(x, out):
        for i in range(out.size):
            out[i] = int(x[i])

    floor = numba_kernel(whole, Spec(X.shape, np.int32))
    np.testing.assert_array_equal(jax.grad(lambda x: (x * floor(x)).sum())(X + 0.5), X)
    assert jax.jvp(floor, (X,), (X,))[1].dtype == jax.dtypes.float0


@pytest.mark.parametrize("method", METHODS)
class TestVmap:
    def test_nested_with_every_mix_of_batched_operands(self, method):
        wrapped = numba_kernel(kernels.outer, [Spec((2, 2), np.float32), Spec((), np.float32)], vmap_method=method)
        x, y = jnp.arange(24.0).reshape(3, 4, 2), jnp.arange(5.0)

        def reference(x, y):
            matrix = jnp.outer(x, x) + y
            return [matrix, matrix.sum()]

        def nest(f):
            return jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (1, None), out_axes=1), (None, 0), out_axes=-1)

        for got, expected in zip(nest(wrapped)(x, y), nest(reference)(x, y), strict=True):
            np.testing.assert_array_equal(got, expected)

    def test_of_aliased_inputs_batched_or_not(self, method):
        wrapped = numba_kernel(
            kernels.increment, Spec((8,), np.float32), vmap_method=method, input_output_aliases={0: 0}
        )
        xs = jnp.arange(24.0).reshape(3, 8)
        np.testing.assert_array_equal(jax.vmap(wrapped)(xs), xs + 1)
        np.testing.assert_array_equal(jax.vmap(jax.vmap(wrapped, None, axis_size=2), axis_size=3)(xs)[:, 1], xs + 1)
        np.testing.assert_array_equal(xs, jnp.arange(24.0).reshape(3, 8))


def test_the_second_output_can_be_the_alias():
    @numba.njit
    def kernel(x, state, out, new_state):
        for i in range(x.size):
            new_state[i] += x[i]
            out[i] = state[i]

    outs = [Spec((8,), np.float32)] * 2
    out, state = numba_kernel(kernel, outs, input_output_aliases={1: 1})(X, jnp.ones(8))
    np.testing.assert_array_equal(out, X + 1)
    np.testing.assert_array_equal(state, X + 1)
