"""numba_kernel under every JAX transformation."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax

from bridge import DifferentiationError, GatherWarning, numba_kernel
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(8.0)
add = numba_kernel(kernels.add, Spec((8,), np.float32))
double = numba_kernel(kernels.double, Spec((8,), np.float32))
double_parallel = numba_kernel(kernels.double_parallel, Spec((8,), np.float32))
METHODS = [None, "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized"]


def custom_calls(function, *args):
    """How often the compiled program calls a kernel."""
    return jax.jit(function).lower(*args).compile().as_text().count('custom_call_target="bridge_cpu"')


def test_jit_contains_the_call_and_agrees_with_eager():
    np.testing.assert_array_equal(jax.jit(add)(X, X), add(X, X))
    assert custom_calls(add, X, X) == 1


def test_ahead_of_time():
    compiled = add.lower(X, Spec((8,), np.float32)).compile()
    np.testing.assert_array_equal(compiled(X, X), 2 * X)
    assert jax.eval_shape(add, X, X) == Spec((8,), np.float32)


def test_without_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(add(X, X), 2 * X)


def test_scan_while_cond_and_map():
    np.testing.assert_array_equal(lax.scan(lambda c, _: (double(c), c[1]), X, None, length=3)[0], 8 * X)
    np.testing.assert_array_equal(lax.fori_loop(0, 3, lambda _, c: add(c, X), X), 4 * X)
    np.testing.assert_array_equal(lax.while_loop(lambda c: c[1] < 5, double, X), 8 * X)
    choose = jax.jit(lambda p: lax.cond(p, double, lambda x: x, X))
    np.testing.assert_array_equal(choose(True), 2 * X)
    np.testing.assert_array_equal(choose(False), X)
    np.testing.assert_array_equal(lax.map(double, jnp.stack([X, X + 1])), jnp.stack([2 * X, 2 * X + 2]))


def test_rematerialisation_and_custom_derivatives():
    @jax.custom_vjp
    def square(x):
        return numba_kernel(kernels.square, Spec((8,), np.float32))(x)

    square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
    for function in (square, jax.checkpoint(square), jax.jit(square)):
        np.testing.assert_array_equal(jax.grad(lambda x, f=function: f(x).sum())(X), 2 * X)
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(lambda x: square(x).sum()))(jnp.stack([X, X])), jnp.stack([2 * X] * 2)
    )


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f: jax.grad(lambda x: f(x).sum())(X),
        lambda f: jax.jvp(f, (X,), (X,)),
        lambda f: jax.jacfwd(f)(X),
        lambda f: jax.jit(jax.grad(lambda x: jax.vmap(f)(jnp.stack([x, x])).sum()))(X),
        lambda f: jax.linear_transpose(f, X)(X),
    ],
    ids=["grad", "jvp", "jacfwd", "grad of vmap", "transpose"],
)
def test_differentiation_without_a_rule_says_how_to_attach_one(differentiate):
    with pytest.raises(DifferentiationError, match=r"double has no derivative.*jax\.custom_vjp"):
        differentiate(double)


def test_integer_results_have_the_derivative_zero():
    @numba.njit
    def whole(x, out):
        for i in range(out.size):
            out[i] = int(x[i])

    floor = numba_kernel(whole, Spec(X.shape, np.int32))
    np.testing.assert_array_equal(jax.grad(lambda x: (x * floor(x)).sum())(X + 0.5), X)
    assert jax.jvp(floor, (X,), (X,))[1].dtype == jax.dtypes.float0


def test_derivatives_that_do_not_pass_through_it_are_unaffected():
    assert jax.grad(lambda a: a * double(X)[1] + double(lax.stop_gradient(a * X))[1])(3.0) == 2.0


@pytest.mark.parametrize("method", METHODS)
class TestVmap:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_over_any_axis(self, method, axis):
        wrapped = numba_kernel(kernels.double, Spec((8,), np.float32), vmap_method=method)
        x = jnp.moveaxis(jnp.arange(24.0).reshape(3, 8), 0, axis)
        np.testing.assert_array_equal(jax.vmap(wrapped, in_axes=axis, out_axes=axis)(x), 2 * x)

    def test_with_an_unbatched_operand(self, method):
        wrapped = numba_kernel(kernels.add, Spec((8,), np.float32), vmap_method=method)
        xs = jnp.arange(24.0).reshape(3, 8)
        np.testing.assert_array_equal(jax.vmap(wrapped, (0, None))(xs, X), xs + X)
        np.testing.assert_array_equal(jax.vmap(wrapped, (None, 0))(X, xs), xs + X)

    def test_nested_with_every_mix_of_batched_operands(self, method):
        wrapped = numba_kernel(kernels.outer, [Spec((2, 2), np.float32), Spec((), np.float32)], vmap_method=method)
        x, y = jnp.arange(24.0).reshape(3, 4, 2), jnp.arange(5.0)

        def reference(x, y):
            matrix = jnp.outer(x, x) + y
            return [matrix, matrix.sum()]

        def nest(f):
            return jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (0, None), out_axes=1), (None, 0), out_axes=-1)

        for got, expected in zip(nest(wrapped)(x, y), nest(reference)(x, y), strict=True):
            np.testing.assert_array_equal(got, expected)

    def test_over_an_empty_batch_and_a_batch_of_one(self, method):
        wrapped = numba_kernel(kernels.add, Spec((8,), np.float32), vmap_method=method)
        for extent in (0, 1):
            xs = jnp.ones((extent, 8))
            np.testing.assert_array_equal(jax.vmap(wrapped, (0, None))(xs, X), xs + X)

    def test_of_aliased_inputs_batched_or_not(self, method):
        wrapped = numba_kernel(
            kernels.increment, Spec((8,), np.float32), vmap_method=method, input_output_aliases={0: 0}
        )
        xs = jnp.arange(24.0).reshape(3, 8)
        np.testing.assert_array_equal(jax.vmap(wrapped)(xs), xs + 1)
        np.testing.assert_array_equal(jax.vmap(jax.vmap(wrapped, None, axis_size=2), axis_size=3)(xs)[:, 1], xs + 1)
        np.testing.assert_array_equal(xs, jnp.arange(24.0).reshape(3, 8))


def test_vmap_makes_one_call():
    xs = jnp.ones((3, 4, 8))
    assert custom_calls(jax.vmap(jax.vmap(add, (0, None)), (0, None)), xs, X) == 1


def test_vmap_of_a_parallel_kernel_in_a_scan():
    xs = jnp.ones((3, 8))
    result = lax.scan(lambda c, _: (jax.vmap(double_parallel)(c), None), xs, None, length=4)[0]
    np.testing.assert_array_equal(result, 16 * xs)


class TestAliases:
    def test_a_donated_input_shares_the_buffer(self):
        wrapped = numba_kernel(kernels.increment, Spec((1000,), np.float32), input_output_aliases={0: 0})
        step = jax.jit(lambda x: wrapped(x), donate_argnums=0)
        x = jnp.arange(1000.0) + 0
        pointer = x.unsafe_buffer_pointer()
        result = step(x)
        assert result.unsafe_buffer_pointer() == pointer
        assert x.is_deleted()
        np.testing.assert_array_equal(result, np.arange(1000.0) + 1)

    def test_an_input_that_is_still_needed_is_copied(self):
        wrapped = numba_kernel(kernels.increment, Spec((8,), np.float32), input_output_aliases={0: 0})
        x = jnp.arange(8.0)
        np.testing.assert_array_equal(jax.jit(lambda x: wrapped(x) + x)(x), 2 * np.arange(8.0) + 1)
        np.testing.assert_array_equal(wrapped(x), np.arange(8.0) + 1)
        np.testing.assert_array_equal(x, np.arange(8.0))

    def test_in_a_loop_the_carry_is_updated_in_place(self):
        wrapped = numba_kernel(kernels.increment, Spec((8,), np.float32), input_output_aliases={0: 0})
        np.testing.assert_array_equal(lax.fori_loop(0, 5, lambda _, x: wrapped(x), X), X + 5)

    def test_the_second_output_can_be_the_alias(self):
        @numba.njit
        def kernel(x, state, out, new_state):
            for i in range(x.size):
                new_state[i] += x[i]
                out[i] = state[i]

        outs = [Spec((8,), np.float32)] * 2
        out, state = numba_kernel(kernel, outs, input_output_aliases={1: 1})(X, jnp.ones(8))
        np.testing.assert_array_equal(out, X + 1)
        np.testing.assert_array_equal(state, X + 1)


class TestSharding:
    @pytest.fixture
    def mesh(self):
        if jax.device_count("cpu") < 8:
            pytest.skip("needs 8 CPU devices, which conftest.py makes unless cells are timed (--profile)")
        return jax.sharding.Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("a", "b"))

    def test_shard_map_checks_varying_axes(self, mesh):
        P = jax.sharding.PartitionSpec
        wrapped = numba_kernel(kernels.add2, Spec((2, 4), np.float32))
        x, y = jnp.arange(64.0).reshape(8, 8), jnp.ones((2, 4))
        run = jax.jit(
            jax.shard_map(wrapped, mesh=mesh, in_specs=(P("a", "b"), P()), out_specs=P("a", "b"), check_vma=True)
        )
        np.testing.assert_array_equal(run(x, y), x + 1)

    def test_shard_map_of_replicated_inputs_gives_a_replicated_output(self, mesh):
        P = jax.sharding.PartitionSpec
        run = jax.shard_map(double, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=True)
        np.testing.assert_array_equal(run(X), 2 * X)

    def test_shard_map_of_vmap_and_scan(self, mesh):
        P = jax.sharding.PartitionSpec

        def body(x):
            return lax.scan(lambda c, _: (jax.vmap(double)(c), None), x, None, length=2)[0]

        run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=True))
        xs = jnp.arange(64.0).reshape(8, 8)
        np.testing.assert_array_equal(run(xs), 4 * xs)

    def test_sharded_arguments_under_plain_jit(self, mesh):
        sharded = jax.device_put(X, jax.NamedSharding(mesh, jax.sharding.PartitionSpec(("a", "b"))))
        for run in (jax.jit(add), add):
            with pytest.warns(GatherWarning, match="add: argument 0 is split over the mesh axes 'a' and 'b'"):
                np.testing.assert_array_equal(run(sharded, X), 2 * X)
            jax.clear_caches()

    def test_an_explicit_mesh(self, mesh):
        explicit = jax.make_mesh((8,), ("i",), devices=jax.devices("cpu")[:8])
        with jax.set_mesh(explicit):
            sharded = jax.device_put(X, jax.NamedSharding(explicit, jax.sharding.PartitionSpec("i")))
            with pytest.warns(GatherWarning, match="add: argument 0 is split over the mesh axis 'i'"):
                np.testing.assert_array_equal(add(sharded, X), 2 * X)

    def test_each_device_runs_it(self, mesh):
        for device in mesh.devices.flat:
            result = double(jax.device_put(X, device))
            assert result.devices() == {device}
            np.testing.assert_array_equal(result, 2 * X)


def test_a_partial_and_a_lambda_around_it_stay_cached():
    before = add._cache_size()
    for _ in range(3):
        functools.partial(add, X)(X)
    assert add._cache_size() <= before + 1
