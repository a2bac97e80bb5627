"""Checks how operators register kernels, choose one, and behave under JAX's transformations."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import (
    BackendError,
    DifferentiationError,
    ParameterError,
    SignatureError,
    XLACustomKernel,
    debug_mode,
    numba_kernel,
)
from bridge.operator.choice.candidates import choose
from bridge.operator.choice.registry import Registry
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(4.0)
OUT = Spec((4,), np.float32)


def scale_generator(outs, factor=2.0):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    return lambda x: numba_kernel(scale, outs[0])(x)


def constant_generator(value):
    return lambda outs, **_: lambda x: jnp.full(outs[0].shape, value, outs[0].dtype)


@pytest.fixture
def op():
    op = XLACustomKernel("scale")
    op.def_numba_kernel(scale_generator)
    return op


class TestRegistration:
    def test_the_first_kernel_of_a_platform_is_its_default(self, op):
        op.def_kernel("other", "cpu", constant_generator(1))
        assert op.defaults == {"cpu": "numba"}
        assert {platform: list(backends) for platform, backends in op._kernels.items()} == {"cpu": ["numba", "other"]}
        assert op._kernels["cpu"]["numba"] is scale_generator

    def test_asdefault_and_set_default_take_effect_at_the_next_call(self, op):
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)
        op.def_kernel("one", "cpu", constant_generator(1), asdefault=True)
        np.testing.assert_array_equal(op(X, outs=OUT), jnp.ones(4))
        op.set_default("cpu", "numba")
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)

    def test_redefining_a_kernel_takes_effect_at_the_next_call_but_not_in_compiled_programs(self, op):
        program = jax.jit(lambda x: op(x, outs=OUT))
        np.testing.assert_array_equal(program(X), 2 * X)
        op.def_numba_kernel(constant_generator(7))
        np.testing.assert_array_equal(op(X, outs=OUT), jnp.full(4, 7))
        np.testing.assert_array_equal(program(X), 2 * X)

    def test_gpu_is_another_name_for_cuda(self, op):
        op.def_kernel("other", "gpu", constant_generator(1))
        assert op.defaults == {"cpu": "numba", "cuda": "other"}

    def test_operators_of_one_name_are_independent(self, op):
        twin = XLACustomKernel("scale")
        with pytest.raises(BackendError, match="scale: no kernel is registered"):
            twin(X, outs=OUT)
        twin.def_numba_kernel(constant_generator(5))
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)
        np.testing.assert_array_equal(twin(X, outs=OUT), jnp.full(4, 5))


class TestDispatch:
    """choose is a pure function of a snapshot and a request."""

    @pytest.fixture
    def registry(self):
        registry = Registry("op")
        for backend, platform in [("numba", "cpu"), ("warp", "cpu"), ("warp", "cuda"), ("pallas", "cuda")]:
            registry.register(backend, platform, scale_generator, asdefault=False)
        return registry

    def test_defaults(self, registry):
        assert [c[:2] for c in choose(registry.snapshot, ("default",), "op")] == [("cpu", "numba"), ("cuda", "warp")]

    def test_a_requested_backend_runs_only_where_it_is_registered(self, registry):
        assert [c[:2] for c in choose(registry.snapshot, ("warp",), "op")] == [("cpu", "warp"), ("cuda", "warp")]
        assert [c[:2] for c in choose(registry.snapshot, ("pallas",), "op")] == [("cuda", "pallas")]

    def test_an_unknown_backend(self, registry):
        with pytest.raises(
            BackendError,
            match=r"backend 'triton' is not registered \(registered: cpu: numba, warp; cuda: warp, pallas\)",
        ):
            choose(registry.snapshot, ("triton",), "op")

    def test_a_snapshot_does_not_change(self, registry):
        snapshot = registry.snapshot
        registry.set_default("cpu", "warp")
        assert choose(snapshot, ("default",), "op")[0].backend == "numba"
        with pytest.raises(TypeError):
            snapshot.defaults["cpu"] = "warp"


class TestKeywords:
    """Parameters are checked before a function is called, so that its own errors are not blamed on the call."""

    def test_an_error_of_a_generator_is_its_own(self):
        def generator(outs, factor):
            return len(factor)

        op = XLACustomKernel("scale")
        op.def_kernel("a", "cpu", generator)
        with pytest.raises(TypeError, match="object of type 'float' has no len") as caught:
            op(X, outs=OUT, factor=2.0)
        assert not isinstance(caught.value, ParameterError)
        assert "raised by the a generator of the operator scale" in caught.value.__notes__[0]

    def test_an_error_inside_a_function_outs_is_its_own(self):
        op = XLACustomKernel("scale", outs=lambda x, factor: len(factor))
        op.def_kernel("a", "cpu", scale_generator)
        with pytest.raises(TypeError, match="object of type 'float' has no len"):
            op(X, factor=2.0)

    @pytest.mark.parametrize("generator", [lambda outs, **_: abs, lambda **_: abs, lambda **parameters: abs])
    def test_a_generator_of_any_parameters_takes_all(self, generator):
        op = XLACustomKernel("any")
        op.def_kernel("a", "cpu", generator)
        np.testing.assert_array_equal(op(X, outs=OUT, anything=3), X)

    def test_a_parameter_with_a_default_may_be_left_out(self, op):
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)
        with pytest.raises(ParameterError, match="got an unknown parameter 'factr'; it takes factor"):
            op(X, outs=OUT, factr=2.0)

    def test_a_parameter_of_a_configuration(self):
        op = XLACustomKernel("scale")
        op.def_kernel("a", "cpu", lambda outs: abs, configurations={"fast": {"block": 1}})
        with pytest.raises(
            ParameterError, match="unknown parameter 'block' from its configuration a:fast; it takes no"
        ):
            op(X, outs=OUT)

    def test_the_parameter_that_pallas_gets_is_not_one_of_the_call(self):
        op = XLACustomKernel("scale")
        op.def_pallas_kernel(lambda outs, interpret, factor: lambda x: factor * x)
        np.testing.assert_array_equal(op(X, outs=OUT, factor=3.0), 3 * X)
        with pytest.raises(ParameterError, match="backend 'pallas' lacks the parameter 'factor'; it takes factor"):
            op(X, outs=OUT)

    def test_rules(self):
        op = XLACustomKernel("scale", outs=lambda x, factor: x)
        op.def_kernel("a", "cpu", lambda outs, factor: lambda x: factor * x)
        op.def_vjp(lambda x, outs: (x, None), lambda _, cotangents, outs, factor: cotangents)
        with pytest.raises(
            ParameterError, match="'scale': the forward rule of def_vjp got an unknown parameter 'factor'"
        ):
            jax.vjp(lambda x: op(x, factor=2.0), X)
        op.def_vjp(lambda x, outs, factor: (x, None), lambda _, cotangents, outs: cotangents)
        with pytest.raises(ParameterError, match="the backward rule of def_vjp got an unknown parameter 'factor'"):
            jax.vjp(lambda x: op(x, factor=2.0), X)[1](X)
        op.def_batching(lambda extent, is_batched, x, outs: x)
        with pytest.raises(ParameterError, match="the batching rule got an unknown parameter 'factor'"):
            jax.vmap(lambda x: op(x, factor=2.0))(X[None])

    def test_rules_in_debug_mode(self):
        op = XLACustomKernel("scale", outs=lambda x, factor: x)
        op.def_kernel("a", "cpu", lambda outs, factor: lambda x: factor * x)
        op.def_jvp(lambda primals, tangents, outs: (primals, tangents))
        with debug_mode(), pytest.raises(ParameterError, match="the rule of def_jvp got an unknown parameter 'factor'"):
            jax.jvp(lambda x: op(x, factor=2.0), (X,), (X,))


class TestCalls:
    def test_backend_by_call(self, op):
        op.def_kernel("one", "cpu", constant_generator(1))
        np.testing.assert_array_equal(op(X, outs=OUT, backend="one"), jnp.ones(4))
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)

    def test_a_backend_of_another_platform_never_runs_silently(self, op):
        op.def_kernel("cuda-only", "cuda", constant_generator(1))
        with pytest.raises(
            BackendError, match=r"no kernel for platform 'cpu' \(this call can run on cuda: cuda-only\)"
        ):
            op(X, outs=OUT, backend="cuda-only")

    def test_static_parameters_reach_the_generator(self, op):
        for factor in (3.0, 4.0, 3.0):
            np.testing.assert_array_equal(op(X, outs=OUT, factor=factor), factor * X)

    def test_equal_parameters_of_another_type_or_sign_are_others(self):
        op = XLACustomKernel("spy")
        op.def_kernel("a", "cpu", lambda outs, value: lambda x: x + hash(repr(value)) % 1000)
        for value in (0, 0.0, -0.0, False, (0,), (-0.0,), np.float32(-0.0)):
            np.testing.assert_array_equal(op(X, outs=OUT, value=value), X + hash(repr(value)) % 1000)

    def test_results_have_the_container_of_outs(self, op):
        assert isinstance(op(X, outs=OUT), jax.Array)
        for outs in ([OUT], (OUT,), {"y": OUT}, {"y": [OUT]}):
            assert jax.tree.structure(op(X, outs=outs)) == jax.tree.structure(outs)

    @pytest.mark.parametrize("container", [lambda *r: r, lambda *r: list(r), lambda a, b: {"a": a, "b": b}])
    def test_a_kernel_may_return_any_container(self, container):
        op = XLACustomKernel("two")
        op.def_numba_kernel(lambda outs: lambda x: container(x + 1, x + 2))
        first, second = op(X, outs=[OUT, OUT])
        np.testing.assert_array_equal(first, X + 1)
        np.testing.assert_array_equal(second, X + 2)

    def test_the_generator_always_sees_a_tuple_of_specs(self):
        seen = []
        op = XLACustomKernel("spy")
        op.def_numba_kernel(lambda outs: seen.append(outs) or (lambda x: x))
        op(X, outs=OUT)
        op(X, outs={"y": [OUT]})
        assert seen == [(OUT,)] or seen == [(OUT,), (OUT,)]

    @pytest.mark.parametrize(
        ("generator", "message"),
        [
            (lambda outs: lambda x: (x, x), r"returned float32\[4\], float32\[4\], but outs declares float32\[4\]"),
            (lambda outs: lambda x: x[:2], r"returned float32\[2\], but outs declares float32\[4\]"),
            (lambda outs: lambda x: x.astype(jnp.int32), r"returned int32\[4\], but outs declares"),
            (lambda outs: None, "generator returned None, expected a function"),
        ],
    )
    def test_results_that_do_not_match_outs(self, generator, message):
        op = XLACustomKernel("mismatch")
        op.def_numba_kernel(generator)
        with pytest.raises(SignatureError, match=message):
            op(X, outs=OUT)

    def test_an_error_in_the_generator_is_the_callers_error(self):
        op = XLACustomKernel("broken")
        op.def_numba_kernel(lambda outs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            op(X, outs=OUT)

    def test_a_parameter_may_be_a_static_argument_of_jit(self, op):
        static = jax.jit(lambda x, factor: op(x, outs=OUT, factor=factor), static_argnames="factor")
        np.testing.assert_array_equal(static(X, factor=2.0), 2 * X)

    def test_an_operator_without_inputs_runs_alone_and_in_vmap(self):
        op = XLACustomKernel("fill")
        op.def_numba_kernel(lambda outs: numba_kernel(kernels.fill, outs[0]))
        np.testing.assert_array_equal(op(outs=OUT), [0, 1, 2, 3])
        np.testing.assert_array_equal(jax.vmap(lambda x: x + op(outs=OUT)[2])(X), X + 2)


class TestTransformations:
    def test_jit_aot_scan_and_cond(self, op):
        call = lambda x: op(x, outs=OUT)  # noqa: E731
        np.testing.assert_array_equal(jax.jit(call)(X), 2 * X)
        np.testing.assert_array_equal(jax.jit(call).lower(X).compile()(X), 2 * X)
        np.testing.assert_array_equal(jax.lax.scan(lambda c, _: (call(c), None), X, None, length=3)[0], 8 * X)
        np.testing.assert_array_equal(jax.lax.cond(True, call, lambda x: x, X), 2 * X)
        with jax.disable_jit():
            np.testing.assert_array_equal(call(X), 2 * X)

    def test_vmap_batches_the_kernel_in_one_call(self):
        op = XLACustomKernel("add")
        op.def_numba_kernel(lambda outs: numba_kernel(kernels.add, outs[0]))
        call = lambda x, y: op(x, y, outs=OUT)  # noqa: E731
        xs, ys = jnp.arange(24.0).reshape(4, 6), jnp.arange(12.0).reshape(3, 4)
        nested = jax.vmap(jax.vmap(call, (1, None)), (None, 0), out_axes=1)
        np.testing.assert_array_equal(nested(xs, ys), xs.T[:, None] + ys[None])
        text = jax.jit(nested).lower(xs, ys).compile().as_text()
        assert text.count('custom_call_target="bridge_cpu"') == 1

    def test_vmap_of_a_jnp_kernel(self):
        op = XLACustomKernel("sum")
        op.def_kernel("jnp", "cpu", lambda outs: lambda x: x.sum())
        xs = jnp.arange(24.0).reshape(4, 6)
        np.testing.assert_array_equal(jax.vmap(lambda x: op(x, outs=Spec((), np.float32)), 1)(xs), xs.sum(0))

    def test_differentiation_without_a_rule_says_how_to_attach_one(self, op):
        with pytest.raises(DifferentiationError, match=r"scale has no derivative.*def_vjp"):
            jax.grad(lambda x: op(x, outs=OUT).sum())(X)

    def test_shard_map(self, op):
        if jax.device_count("cpu") < 4:
            pytest.skip("needs 4 CPU devices, which conftest.py makes unless cells are timed (--profile)")
        mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:4]), ("i",))
        P = jax.sharding.PartitionSpec
        call = lambda x: op(x, outs=Spec((2,), np.float32))  # noqa: E731
        run = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=True))
        np.testing.assert_array_equal(run(jnp.arange(8.0)), 2 * jnp.arange(8.0))

    def test_a_platform_without_a_kernel_is_an_error_when_lowering(self, op):
        with pytest.raises(BackendError, match=r"no kernel for platform 'cuda' \(this call can run on cpu: numba\)"):
            jax.jit(lambda x: op(x, outs=OUT)).trace(X).lower(lowering_platforms=("cuda",))

    def test_one_program_for_two_platforms(self, op):
        op.def_kernel("jnp", "cuda", lambda outs, **_: lambda x: 2 * x)
        lowered = jax.jit(lambda x: op(x, outs=OUT)).trace(X).lower(lowering_platforms=("cpu", "cuda"))
        assert "bridge_cpu" in lowered.as_text()
        assert "multiply" in lowered.as_text()

    def test_jaxprs_name_the_operator_and_its_backends(self, op):
        assert "scale[cpu: numba]" in str(jax.make_jaxpr(lambda x: op(x, outs=OUT))(X))
