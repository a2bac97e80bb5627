"""jax_kernel under every JAX transformation but differentiation."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import bridge
from bridge import GatherWarning, PlatformError, jax_kernel
from suites.unit.bridge import warp_kernels as kernels

Spec = jax.ShapeDtypeStruct
P = jax.sharding.PartitionSpec
X = jnp.linspace(0.0, 1.0, 8)
RATE = jnp.full(1, 3.5)
METHODS = [None, "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized"]

wrapped = jax_kernel(kernels.logistic, launch_dims=8, output_dims=8)
rows = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=3, output_dims=3)


def logistic(rate, x):
    """One array in place of a list."""
    return wrapped(rate, x)[0]


def reference(rate, x):
    return rate[0] * x * (1 - x)


def assert_near(got, expected):
    # Two products and a difference, of numbers up to 3.5: a few roundings.
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def custom_calls(function, *args):
    """How often a program calls a kernel."""
    text = jax.jit(function).lower(*args).compile().as_text()
    return text.count('custom_call_target="bridge_cpu"')


def test_jit_contains_the_call_and_agrees_with_eager():
    np.testing.assert_array_equal(jax.jit(logistic)(RATE, X), logistic(RATE, X))
    assert_near(logistic(RATE, X), reference(RATE, X))
    assert custom_calls(logistic, RATE, X) == 1


def test_ahead_of_time():
    compiled = jax.jit(logistic).lower(RATE, Spec((8,), np.float32)).compile()
    assert_near(compiled(RATE, X), reference(RATE, X))
    assert jax.eval_shape(logistic, RATE, X) == Spec((8,), np.float32)


def test_without_jit():
    with jax.disable_jit():
        assert_near(logistic(RATE, X), reference(RATE, X))


def test_scan_while_cond_and_map():
    expected = reference(RATE, reference(RATE, X))
    assert_near(lax.scan(lambda c, _: (logistic(RATE, c), c[1]), X, None, length=2)[0], expected)
    assert_near(lax.fori_loop(0, 2, lambda _, c: logistic(RATE, c), X), expected)
    below = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, logistic(RATE, c[1])), (0, X))
    assert_near(below[1], expected)
    choose = jax.jit(lambda p: lax.cond(p, lambda x: logistic(RATE, x), lambda x: x, X))
    assert_near(choose(True), reference(RATE, X))
    np.testing.assert_array_equal(choose(False), X)
    xs = jnp.stack([X, X / 2])
    assert_near(lax.map(lambda x: logistic(RATE, x), xs), reference(RATE, xs))


@pytest.mark.parametrize("method", METHODS)
class TestVmap:
    @pytest.fixture
    def call(self, method):
        call = jax_kernel(kernels.logistic, launch_dims=8, output_dims=8, vmap_method=method)
        return lambda rate, x: call(rate, x)[0]

    @pytest.fixture
    def extremes(self, method):
        return jax_kernel(kernels.extremes, num_outputs=2, launch_dims=3, output_dims=3, vmap_method=method)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_over_any_axis(self, extremes, axis):
        x = jnp.moveaxis(jnp.arange(24.0).reshape(2, 3, 4), 0, axis)
        low, high = jax.vmap(extremes, in_axes=axis, out_axes=-1)(x)
        np.testing.assert_array_equal(low, jnp.arange(0.0, 24.0, 4).reshape(2, 3).T)
        np.testing.assert_array_equal(high - low, jnp.full((3, 2), 3))

    def test_with_an_unbatched_operand(self, call):
        rates, xs = jnp.arange(3.0)[:, None], jnp.stack([X, X / 2, X / 3])
        assert_near(jax.vmap(call, (0, None))(rates, X), rates * X * (1 - X))
        assert_near(jax.vmap(call, (None, 0))(RATE, xs), reference(RATE, xs))

    def test_nested_with_every_mix_of_batched_operands(self, call):
        rates, xs = jnp.arange(1.0, 4.0)[:, None], jnp.stack([X, X / 2])

        def nest(f):
            return jax.vmap(jax.vmap(f, (0, None)), (None, 0), out_axes=1)

        assert_near(nest(call)(rates, xs), nest(reference)(rates, xs))

    @pytest.mark.parametrize("extent", [0, 1])
    def test_over_an_empty_batch_and_a_batch_of_one(self, call, extent):
        xs = jnp.ones((extent, 8)) / 2
        assert_near(jax.vmap(call, (None, 0))(RATE, xs), reference(RATE, xs))

    def test_of_in_out_arguments_batched_or_not(self, method):
        call = jax_kernel(kernels.increment, in_out_argnames=["x"], vmap_method=method)
        xs = jnp.arange(24.0).reshape(3, 8)
        np.testing.assert_array_equal(jax.vmap(call)(xs)[0], xs + 1)
        np.testing.assert_array_equal(jax.vmap(jax.vmap(call, None, axis_size=2), axis_size=3)(xs)[0][:, 1], xs + 1)
        np.testing.assert_array_equal(xs, jnp.arange(24.0).reshape(3, 8))

    def test_of_inferred_launch_dimensions(self, method):
        call = jax_kernel(kernels.index2, vmap_method=method)
        x = jnp.arange(24, dtype=jnp.int32).reshape(2, 3, 4)
        expected = 100 * x + 10 * np.arange(3)[:, None] + np.arange(4)
        np.testing.assert_array_equal(jax.vmap(call)(x)[0], expected)


def test_vmap_makes_one_call():
    rates, xs = jnp.ones((3, 1)), jnp.ones((4, 8))
    assert custom_calls(jax.vmap(jax.vmap(logistic, (None, 0)), (0, None)), rates, xs) == 1
    assert custom_calls(jax.vmap(rows), jnp.ones((5, 3, 4))) == 1


def test_a_single_call_may_choose_its_vmap_method():
    xs = jnp.ones((3, 8)) / 2
    batched = jax.vmap(lambda x: wrapped(RATE, x, vmap_method="sequential_unrolled")[0])
    assert_near(batched(xs), reference(RATE, xs))
    assert custom_calls(batched, xs) == 3


def test_vmap_in_a_scan():
    xs = jnp.stack([X, X / 2])
    step = jax.vmap(lambda x: logistic(RATE, x))
    result = lax.scan(lambda c, _: (step(c), None), xs, None, length=3)[0]
    assert_near(result, reference(RATE, reference(RATE, reference(RATE, xs))))


class TestSharding:
    @pytest.fixture
    def mesh(self):
        if jax.device_count("cpu") < 8:
            pytest.skip("needs 8 CPU devices, which conftest.py makes unless cells are timed (--profile)")
        return jax.sharding.Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("a", "b"))

    XS = jnp.linspace(0.0, 1.0, 64)

    @pytest.mark.parametrize("check", [True, False])
    def test_shard_map_runs_a_part_on_each_device(self, mesh, check):
        specs = (P(), P(("a", "b")))
        run = jax.jit(jax.shard_map(logistic, mesh=mesh, in_specs=specs, out_specs=specs[1], check_vma=check))
        assert_near(run(RATE, self.XS), reference(RATE, self.XS))

    def test_shard_map_of_replicated_inputs_gives_a_replicated_output(self, mesh):
        run = jax.shard_map(logistic, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=True)
        assert_near(run(RATE, X), reference(RATE, X))

    def test_shard_map_of_vmap_and_scan(self, mesh):
        def body(xs):
            return lax.scan(lambda c, _: (jax.vmap(logistic, (None, 0))(RATE, c), None), xs, None, length=2)[0]

        run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=True))
        xs = self.XS.reshape(8, 8)
        assert_near(run(xs), reference(RATE, reference(RATE, xs)))

    def test_shard_map_of_in_out_arguments(self, mesh):
        call = jax_kernel(kernels.increment, in_out_argnames=["x"])
        run = jax.shard_map(lambda x: call(x)[0], mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=True)
        np.testing.assert_array_equal(run(self.XS), self.XS + 1)

    def test_sharded_arguments_under_plain_jit(self, mesh):
        sharded = jax.device_put(X, jax.NamedSharding(mesh, P(("a", "b"))))
        for run in (jax.jit(logistic), logistic):
            with pytest.warns(GatherWarning, match="logistic: argument 1 is split over the mesh axes 'a' and 'b'"):
                assert_near(run(RATE, sharded), reference(RATE, X))
            jax.clear_caches()

    def test_an_explicit_mesh(self):
        explicit = jax.make_mesh((8,), ("i",), devices=jax.devices("cpu")[:8])
        with jax.set_mesh(explicit):
            sharded = jax.device_put(X, jax.NamedSharding(explicit, P("i")))
            with pytest.warns(GatherWarning, match="logistic: argument 1 is split over the mesh axis 'i'"):
                assert_near(logistic(RATE, sharded), reference(RATE, X))

    def test_each_device_runs_it(self, mesh):
        for device in mesh.devices.flat:
            result = logistic(*jax.device_put((RATE, X), device))
            assert result.devices() == {device}
            assert_near(result, reference(RATE, X))


class TestExport:
    def export(self, function, *args, platforms):
        return jax.export.export(jax.jit(function), platforms=platforms, disabled_checks=bridge.export_checks())(*args)

    def test_for_two_platforms_on_a_machine_without_a_gpu(self):
        def loss(rate, x):
            return jax.vmap(logistic, (None, 0))(rate, x).sum()

        exported = self.export(jax.grad(loss, (0, 1)), RATE, jnp.stack([X, X]), platforms=("cpu", "cuda"))
        text = exported.mlir_module()
        assert [text.count(f"@{target}(") for target in ("bridge_cpu", "bridge_cuda")] == [2, 2]
        rate, x = exported.call(RATE, jnp.stack([X, X]))
        assert_near(rate, 2 * (X * (1 - X)).sum())
        assert_near(x, jnp.stack([RATE[0] * (1 - 2 * X)] * 2))

    def test_values_of_the_two_platforms_are_the_same_program(self):
        call = jax_kernel(kernels.scale)
        exported = self.export(lambda x: call(x, 3.0)[0], X, platforms=("cuda", "cpu"))
        np.testing.assert_array_equal(exported.call(X), 3 * X)

    def test_the_program_says_what_it_calls(self):
        text = self.export(logistic, RATE, X, platforms=("cpu",)).mlir_module()
        assert r'kernel = "{\22language\22:\22warp\22,\22name\22:\22logistic\22' in text
        assert str(id(kernels.logistic)) not in text

    def test_another_platform_is_refused_when_lowering(self):
        with pytest.raises(PlatformError, match=r"logistic runs on cpu or cuda, but is being lowered for tpu"):
            jax.jit(logistic).trace(RATE, X).lower(lowering_platforms=("tpu",))
