"""jax_kernel: launch dimensions, shapes of outputs, in/out arguments, and what a single call may set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)
TABLE = jnp.asarray(np.random.default_rng(1).integers(-99, 99, (6, 4)), jnp.float32)


def grid4(*shape):
    return sum(10 ** (3 - axis) * index for axis, index in enumerate(np.indices(shape)))


class TestLaunchDims:
    @pytest.mark.parametrize("dims", [3, (3,), [3], np.int64(3), (np.int32(3),), np.array([3])])
    def test_one_dimension_in_every_form(self, dims):
        np.testing.assert_array_equal(jax_kernel(kernels.count1, launch_dims=dims)()[0], [0, 1, 2])

    @pytest.mark.parametrize("dims", [(2, 3, 4, 5), [2, 3, 4, 5], np.array([2, 3, 4, 5])])
    def test_up_to_four_dimensions_in_every_form(self, dims):
        np.testing.assert_array_equal(jax_kernel(kernels.count4, launch_dims=dims)()[0], grid4(2, 3, 4, 5))

    def test_missing_dimensions_have_one_thread(self):
        call = jax_kernel(kernels.count4, launch_dims=(2, 3), output_dims=(2, 3, 1, 1))
        np.testing.assert_array_equal(call()[0], grid4(2, 3, 1, 1))


class TestOutputDims:
    @pytest.mark.parametrize("dims", [6, (6,), [6], {"low": 6, "high": 6}, {"high": [6], "low": (6,)}, np.array([6])])
    def test_one_for_all_or_one_for_each(self, dims):
        low, high = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=6, output_dims=dims)(TABLE)
        np.testing.assert_array_equal(low, TABLE.min(axis=1))
        np.testing.assert_array_equal(high, TABLE.max(axis=1))


class TestInOut:
    exchange = staticmethod(
        jax_kernel(kernels.exchange, num_outputs=3, in_out_argnames=["total", "old"], launch_dims=4, output_dims=4)
    )

    def test_they_come_before_the_outputs_in_the_order_of_the_kernel(self):
        old, total, out = self.exchange(X, 10 * X, jnp.ones(1))
        np.testing.assert_array_equal(old, X)
        np.testing.assert_array_equal(total, [11])
        np.testing.assert_array_equal(out, 10 * X)

    def test_output_dims_are_for_pure_outputs_only(self):
        options = {"num_outputs": 3, "in_out_argnames": ["old", "total"]}
        _, total, out = jax_kernel(kernels.exchange, **options, output_dims={"out": 7}, launch_dims=4)(
            X, X, jnp.zeros(1)
        )
        assert (total.shape, out.shape) == ((1,), (7,))
        with pytest.raises(SignatureError, match=r"has shapes for \['old', 'out'\], expected one for each output"):
            jax_kernel(kernels.exchange, **options, output_dims={"out": 7, "old": 4})


class TestSingleCalls:
    def test_they_may_set_their_own_dimensions(self):
        call = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=6, output_dims={"low": 6, "high": 6})
        for rows in (3, 2):
            low, high = call(TABLE[:rows], launch_dims=rows, output_dims=rows)
            np.testing.assert_array_equal(low, TABLE[:rows].min(axis=1))
            np.testing.assert_array_equal(high, TABLE[:rows].max(axis=1))
        np.testing.assert_array_equal(call(TABLE)[1], TABLE.max(axis=1))


class TestEmpty:
    def test_empty_outputs_of_a_launch_of_nothing(self):
        assert jax_kernel(kernels.count4, launch_dims=(2, 0, 3, 1))()[0].shape == (2, 0, 3, 1)
        assert jax_kernel(kernels.count1, launch_dims=0)()[0].shape == (0,)

    def test_an_empty_input_of_a_launch_of_something(self):
        np.testing.assert_array_equal(jax_kernel(kernels.tick, launch_dims=0)(0, X[:0])[0], [])
        old, total, out = TestInOut.exchange(X[:0], X[:0], jnp.ones(1), launch_dims=0, output_dims=0)
        assert (old.shape, total.tolist(), out.shape) == ((0,), [1.0], (0,))

    def test_the_gradient_of_nothing_is_zero(self):
        call = jax_kernel(kernels.logistic, launch_dims=0, output_dims=0)
        rate, x = jax.grad(lambda *args: call(*args)[0].sum(), (0, 1))(jnp.ones(1), X)
        np.testing.assert_array_equal(rate, [0])
        np.testing.assert_array_equal(x, jnp.zeros(4))
