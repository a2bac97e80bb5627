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


def test_results_are_a_list_also_of_one_array():
    for call in (jax_kernel(kernels.reverse), jax.jit(jax_kernel(kernels.reverse))):
        results = call(X)
        assert isinstance(results, list)
        assert len(results) == 1
        assert isinstance(results[0], jax.Array)


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

    def test_more_dimensions_than_the_kernel_asks_for_repeat_it(self):
        call = jax_kernel(kernels.exchange, num_outputs=3, in_out_argnames=["old", "total"], launch_dims=(4, 3))
        old, total, out = call(X, jnp.zeros(4), jnp.zeros(1), output_dims=4)
        np.testing.assert_array_equal(old, X)
        assert float(total[0]) == 3 * float(X.sum())
        assert out.shape == (4,)

    def test_they_are_the_shape_of_the_first_array_by_default(self):
        low, high = jax_kernel(kernels.extremes, num_outputs=2, output_dims=6)(TABLE)
        np.testing.assert_array_equal(low, TABLE.min(axis=1))
        np.testing.assert_array_equal(high, TABLE.max(axis=1))

    def test_dimensions_of_elements_do_not_count(self):
        m, q = jnp.arange(12.0).reshape(2, 2, 3), jnp.arange(8.0).reshape(2, 4)
        (result,) = jax_kernel(kernels.entries, output_dims=(2, 3))(m, q)
        np.testing.assert_array_equal(result[:, 2], q[:, 3])

    def test_fewer_threads_than_elements_leave_an_initial_value(self):
        (result,) = jax_kernel(kernels.increment, in_out_argnames=["x"], launch_dims=2)(X)
        np.testing.assert_array_equal(result, X + jnp.array([1, 1, 0, 0]))


class TestOutputDims:
    @pytest.mark.parametrize("dims", [6, (6,), [6], {"low": 6, "high": 6}, {"high": [6], "low": (6,)}, np.array([6])])
    def test_one_for_all_or_one_for_each(self, dims):
        low, high = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=6, output_dims=dims)(TABLE)
        np.testing.assert_array_equal(low, TABLE.min(axis=1))
        np.testing.assert_array_equal(high, TABLE.max(axis=1))

    def test_outputs_of_different_shapes(self):
        low, high = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=6, output_dims={"low": 6, "high": 9})(TABLE)
        assert (low.shape, high.shape) == ((6,), (9,))
        np.testing.assert_array_equal(high[:6], TABLE.max(axis=1))

    def test_they_are_the_launch_dimensions_by_default(self):
        assert jax_kernel(kernels.extremes, num_outputs=2, launch_dims=5)(TABLE)[1].shape == (5,)

    def test_extents_of_elements_may_be_given_as_well(self):
        x = jnp.arange(6.0).reshape(2, 3)
        for dims in (2, (2, 3)):
            np.testing.assert_array_equal(jax_kernel(kernels.REVERSE["vec3"], output_dims=dims)(x)[0], x[::-1])


class TestInOut:
    exchange = staticmethod(
        jax_kernel(kernels.exchange, num_outputs=3, in_out_argnames=["total", "old"], launch_dims=4, output_dims=4)
    )

    def test_they_come_before_the_outputs_in_the_order_of_the_kernel(self):
        old, total, out = self.exchange(X, 10 * X, jnp.ones(1))
        np.testing.assert_array_equal(old, X)
        np.testing.assert_array_equal(total, [11])
        np.testing.assert_array_equal(out, 10 * X)

    def test_what_the_caller_passed_is_unchanged(self):
        given = X, 10 * X, jnp.ones(1)
        before = [np.array(array) for array in given]
        self.exchange(*given)
        jax.jit(self.exchange)(*given)
        for array, expected in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, expected)

    def test_one_array_may_be_passed_twice(self):
        old, total, out = self.exchange(X, X, jnp.zeros(1))
        np.testing.assert_array_equal(old, X)
        np.testing.assert_array_equal(out, X)
        assert float(total[0]) == 10

    def test_a_donated_one_is_updated_in_place(self):
        call = jax_kernel(kernels.increment, in_out_argnames=["x"])
        step = jax.jit(lambda x: call(x)[0], donate_argnums=0)
        x = jnp.arange(1000.0) + 0
        pointer = x.unsafe_buffer_pointer()
        result = step(x)
        assert result.unsafe_buffer_pointer() == pointer
        assert x.is_deleted()
        np.testing.assert_array_equal(result, np.arange(1000.0) + 1)

    def test_one_that_is_still_needed_is_copied(self):
        call = jax_kernel(kernels.increment, in_out_argnames=["x"])
        np.testing.assert_array_equal(jax.jit(lambda x: call(x)[0] + x)(X), 2 * X + 1)

    def test_a_loop_carries_it_in_place(self):
        call = jax_kernel(kernels.increment, in_out_argnames=["x"])
        np.testing.assert_array_equal(jax.lax.fori_loop(0, 5, lambda _, x: call(x)[0], X), X + 5)

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

    def test_one_override_leaves_the_other_options(self):
        call = jax_kernel(kernels.count1, launch_dims=5, output_dims=4)
        np.testing.assert_array_equal(call(output_dims=5)[0], range(5))
        assert call(launch_dims=4)[0].shape == (4,)

    def test_together_with_values(self):
        call = jax_kernel(kernels.scale)
        for factor in (2.0, 3.0):
            np.testing.assert_array_equal(call(X, factor, launch_dims=4, output_dims=(4,))[0], factor * X)


class TestEmpty:
    @pytest.mark.parametrize("shape", [(0,), (0, 3)])
    def test_an_empty_array_gives_an_empty_result(self, shape):
        x = jnp.zeros(shape)
        assert jax_kernel(kernels.reverse)(x)[0].shape == shape

    def test_empty_outputs_of_a_launch_of_nothing(self):
        assert jax_kernel(kernels.count4, launch_dims=(2, 0, 3, 1))()[0].shape == (2, 0, 3, 1)
        assert jax_kernel(kernels.count1, launch_dims=0)()[0].shape == (0,)

    def test_an_empty_input_of_a_launch_of_something(self):
        np.testing.assert_array_equal(jax_kernel(kernels.tick, launch_dims=0)(0, X[:0])[0], [])
        old, total, out = TestInOut.exchange(X[:0], X[:0], jnp.ones(1), launch_dims=0, output_dims=0)
        assert (old.shape, total.tolist(), out.shape) == ((0,), [1.0], (0,))

    def test_a_launch_of_nothing_leaves_in_out_arguments_as_they_were(self):
        np.testing.assert_array_equal(jax_kernel(kernels.increment, in_out_argnames=["x"], launch_dims=0)(X)[0], X)

    def test_the_gradient_of_nothing_is_zero(self):
        call = jax_kernel(kernels.logistic, launch_dims=0, output_dims=0)
        rate, x = jax.grad(lambda *args: call(*args)[0].sum(), (0, 1))(jnp.ones(1), X)
        np.testing.assert_array_equal(rate, [0])
        np.testing.assert_array_equal(x, jnp.zeros(4))
