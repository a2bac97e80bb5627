"""Checks the rules that an author declares for an operator, and the backends that a context prefers."""

import os
import re
import threading

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jax.test_util import check_grads

from bridge import (
    BackendError,
    DifferentiationError,
    GatherWarning,
    SignatureError,
    XLACustomKernel,
    export_checks,
    numba_kernel,
    use_backend,
)
from bridge.operator.choice.preference import VARIABLE

Spec = jax.ShapeDtypeStruct
A = jax.random.normal(jax.random.key(0), (16, 5))
X = jnp.arange(5.0)


@numba.njit
def product(A, x, out):
    for i in range(A.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.size):
            total += A[i, j] * x[j]
        out[i] = total


@pytest.fixture(autouse=True)
def on_the_cpu():
    """Its devices are many, with a GPU or without."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture
def matvec():
    """A @ x, linear in both, on Numba and in jnp."""
    op = XLACustomKernel("matvec", outs=lambda A, x: Spec(A.shape[:1], A.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(product, outs[0]))
    op.def_jnp_kernel(lambda outs: lambda A, x: A @ x)
    op.def_transpose(0, lambda cotangents, x, outs: jnp.outer(cotangents[0], x))
    op.def_transpose(1, lambda cotangents, A, outs: A.T @ cotangents[0])
    return op


@pytest.fixture
def square():
    """x**2 for floats, and n + 1 for integers beside it."""
    op = XLACustomKernel("square", outs=lambda x, n: [Spec(x.shape, x.dtype), Spec(n.shape, n.dtype)])
    op.def_jnp_kernel(lambda outs: lambda x, n: (x**2, n + 1))
    return op


N = jnp.arange(3)
V = jnp.arange(3.0)


def close(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), got, expected)


def test_a_compiled_operator_is_its_kernel(matvec):
    """So it costs the same in a loop, however often it is called."""

    def program(function):
        text = jax.jit(lambda A, x: jax.lax.fori_loop(0, 9, lambda i, x: A.T @ function(A, x), x)).lower(A, X).compile()
        instructions = re.sub(r", metadata=\{[^}]*\}|%?[\w.-]*(jit|fori|custom|call)[\w.-]*", "", text.as_text())
        return sorted(re.findall(r"= (\S+ [\w-]+)\(", instructions)), re.findall(r"key = (-?\d+)", text.as_text())

    assert program(matvec) == program(numba_kernel(product, Spec((16,), A.dtype)))


class TestTranspose:
    @pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
    def test_gradients_are_those_of_the_reference(self, matvec, argnums):
        def loss(product):
            return lambda A, x: (product(A, x) ** 2).sum()

        close(jax.grad(loss(matvec), argnums)(A, X), jax.grad(loss(jnp.matmul), argnums)(A, X))
        close(jax.jit(jax.grad(loss(matvec), argnums))(A, X), jax.grad(loss(jnp.matmul), argnums)(A, X))

    def test_forward_mode_and_second_derivatives(self, matvec):
        check_grads(lambda A, x: jnp.tanh(matvec(A, x)), (A, X), order=2, modes=("fwd", "rev"), atol=0.1, rtol=0.1)

    @pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
    def test_vmap_of_grad_of_vmap(self, matvec, axes):
        shapes = [list(A.shape), list(X.shape)]
        for shape, axis in zip(shapes, axes, strict=True):
            if axis is not None:
                shape.insert(axis, 3)
        many = [jax.random.normal(jax.random.key(1), (2, *shape)) for shape in shapes]

        def gradient(product):
            def loss(A, x):
                return (jax.vmap(product, axes)(A, x) ** 2).sum()

            return jax.vmap(jax.grad(loss, (0, 1)))(*many)

        close(gradient(matvec), gradient(jnp.matmul))

    def test_under_scan_cond_and_remat(self, matvec):
        def loss(product):
            def step(x, _):
                return jax.lax.cond(x.sum() > 0, lambda x: A.T @ product(A, x) / 20, lambda x: x, x), None

            return lambda x: jax.lax.scan(jax.checkpoint(step), x, None, length=3)[0].sum()

        close(jax.grad(loss(matvec))(X), jax.grad(loss(jnp.matmul))(X))

    def test_shard_map_sums_the_gradient_of_a_replicated_operand(self, matvec):
        mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))
        sharded = jax.shard_map(
            matvec, mesh=mesh, in_specs=(PartitionSpec("d"), PartitionSpec()), out_specs=PartitionSpec("d")
        )
        got = jax.grad(lambda A, x: (sharded(A, x) ** 2).sum(), (0, 1))(A, X)
        close(got, jax.grad(lambda A, x: ((A @ x) ** 2).sum(), (0, 1))(A, X))

    def test_an_operand_that_is_not_linear_is_named(self, square):
        square.def_transpose(1, lambda cotangents, x, outs: None)
        with pytest.raises(DifferentiationError, match="square was differentiated along operand 0"):
            jax.grad(lambda x: square(x, N)[0].sum())(V)

    def test_a_cotangent_of_the_wrong_shape_is_refused(self, matvec):
        matvec.def_transpose(1, lambda cotangents, A, outs: cotangents[0])
        with pytest.raises(SignatureError, match=r"operand 1 returned float32\[16\], expected float32\[5\]"):
            jax.grad(lambda x: matvec(A, x).sum())(X)


class TestVjp:
    def test_reverse_mode_with_integer_operands_and_results(self, square):
        seen = []

        def backward(x, cotangents, outs):
            seen.append(cotangents[1])
            return 2 * x * cotangents[0], None

        square.def_vjp(lambda x, n, outs: (square(x, n), x), backward)
        close(jax.grad(lambda x: square(x, N)[0].sum())(V), 2 * V)
        close(jax.jit(jax.vmap(jax.grad(lambda x: square(x, N)[0].sum())))(jnp.ones((2, 3))), 2 * jnp.ones((2, 3)))
        assert seen
        assert set(seen) == {None}

    def test_forward_mode_is_refused_by_jax(self, square):
        square.def_vjp(lambda x, n, outs: (square(x, n), x), lambda x, cotangents, outs: (x, None))
        with pytest.raises(TypeError, match="custom_vjp"):
            jax.jvp(lambda x: square(x, N)[0], (V,), (V,))

    def test_rules_that_return_something_else_are_refused(self, square):
        square.def_vjp(lambda x, n, outs: square(x, n)[0], lambda x, cotangents, outs: (x, None))
        with pytest.raises(SignatureError, match=r"the forward rule of def_vjp returned \w+, expected a pair"):
            jax.grad(lambda x: square(x, N)[0].sum())(V)
        square.def_vjp(lambda x, n, outs: (square(x, n), x), lambda x, cotangents, outs: x)
        with pytest.raises(SignatureError, match="returned 1 gradients, expected one for each of the 2 arguments"):
            jax.grad(lambda x: square(x, N)[0].sum())(V)

    def test_nested_in_rules_of_jax_and_with_donated_arguments(self, square):
        square.def_vjp(lambda x, n, outs: (square(x, n), x), lambda x, c, outs: (2 * x * c[0], None))

        @jax.custom_vjp
        def cube(x):
            return x * square(x, N)[0]

        cube.defvjp(lambda x: (cube(x), x), lambda x, c: (3 * square(x, N)[0] * c,))
        close(jax.grad(lambda x: cube(x).sum())(V), 3 * V**2)
        close(jax.grad(lambda x: jax.grad(lambda y: cube(y).sum())(x).sum())(V), 6 * V)
        donated = jax.jit(lambda x: square(x, N)[0], donate_argnums=0)
        close(donated(V + 1), (V + 1) ** 2)

    def test_a_later_rule_takes_effect_at_the_next_call_and_leaves_programs_alone(self, square):
        def rule(factor):
            square.def_vjp(lambda x, n, outs: (square(x, n), x), lambda x, c, outs: (factor * x * c[0], None))

        rule(2)
        program = jax.jit(jax.grad(lambda x: square(x, N)[0].sum()))
        close(program(V), 2 * V)
        rule(5)
        close(program(V), 2 * V)
        close(jax.grad(lambda x: square(x, N)[0].sum())(V), 5 * V)


class TestJvp:
    def test_both_modes(self, square):
        square.def_jvp(lambda primals, tangents, outs: (square(*primals), [2 * primals[0] * tangents[0], None]))
        close(jax.grad(lambda x: square(x, N)[0].sum())(V), 2 * V)
        results, tangents = jax.jvp(lambda x: square(x, N), (V,), (jnp.ones(3),))
        close(results[0], V**2)
        close(tangents[0], 2 * V)
        assert tangents[1].dtype == jax.dtypes.float0

    def test_a_rule_with_too_few_tangents_is_refused(self, square):
        square.def_jvp(lambda primals, tangents, outs: (square(*primals), [tangents[0]]))
        with pytest.raises(SignatureError, match="returned 1 tangents, expected one for each of the 2 results"):
            jax.jvp(lambda x: square(x, N), (V,), (V,))

    def test_without_a_rule_the_error_says_how_to_declare_one(self, square):
        with pytest.raises(DifferentiationError, match=r"square has no derivative.*def_vjp.*def_jvp.*def_transpose"):
            jax.grad(lambda x: square(x, N)[0].sum())(V)


class TestBatching:
    def test_a_declared_rule_replaces_the_native_batch(self, matvec):
        seen = []

        def rule(extent, is_batched, A, x, outs):
            seen.append((extent, is_batched, A.shape, x.shape, outs[0].shape))
            return jnp.einsum("...ij,...j->...i", A, x) * jnp.ones((extent, 1))

        matvec.def_batching(rule)
        many = jnp.stack([X, X + 1], axis=1)
        close(jax.vmap(matvec, (None, 1))(A, many), jnp.stack([A @ X, A @ (X + 1)]))
        assert seen == [(2, (False, True), (16, 5), (2, 5), (16,))]

    def test_results_without_the_batch_are_refused(self, matvec):
        matvec.def_batching(lambda extent, is_batched, A, x, outs: jnp.ones(16))
        with pytest.raises(SignatureError, match=r"the batching rule returned float32\[16\], but outs declares"):
            jax.vmap(matvec, (None, 0))(A, jnp.ones((2, 5)))


class TestPartitioning:
    @pytest.fixture
    def mesh(self):
        return jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))

    def compiled(self, function, *args):
        program = jax.jit(function).lower(*args).compile()
        return program.as_text(), program(*args)

    def test_a_split_dimension_stays_split_under_plain_jit(self, matvec, mesh):
        matvec.def_partitioning("b i, i -> b", split="b")
        rows = jax.device_put(A, NamedSharding(mesh, PartitionSpec("d")))
        text, result = self.compiled(matvec, rows, X)
        assert "all-gather" not in text
        assert 'custom_call_target="bridge_cpu"' in text
        assert result.sharding.spec == PartitionSpec("d")
        close(result, A @ X)

    def test_undeclared_operators_gather_with_a_warning(self, matvec, mesh):
        rows = jax.device_put(A, NamedSharding(mesh, PartitionSpec("d")))
        with pytest.warns(GatherWarning, match=r"product: argument 0 .* along its dimension 0"):
            text, result = self.compiled(matvec, rows, X)
        assert "all-gather" in text
        close(result, A @ X)

    def test_a_dimension_that_is_not_split_is_gathered_with_a_warning(self, matvec, mesh):
        matvec.def_partitioning("b i, i -> b", split="b")
        columns = jax.device_put(jnp.ones((4, 16)), NamedSharding(mesh, PartitionSpec(None, "d")))
        with pytest.warns(GatherWarning, match=r"matvec: argument 0 .* along its dimension 1"):
            text, result = self.compiled(matvec, columns, jnp.ones(16))
        assert "all-gather" in text
        close(result, 16 * jnp.ones(4))

    def test_under_vmap_and_grad(self, matvec, mesh):
        matvec.def_partitioning("b i, i -> b", split="b")
        rows = jax.device_put(jnp.stack([A] * 3, 1), NamedSharding(mesh, PartitionSpec("d")))
        text, result = self.compiled(jax.vmap(matvec, (1, None)), rows, X)
        assert "all-gather" not in text
        close(result, jnp.stack([A @ X] * 3))
        rows = jax.device_put(A, NamedSharding(mesh, PartitionSpec("d")))
        gradient = jax.jit(jax.grad(lambda A, x: (matvec(A, x) ** 2).sum(), (0, 1)))(rows, X)
        close(gradient, jax.grad(lambda A, x: ((A @ x) ** 2).sum(), (0, 1))(A, X))

    def test_on_one_device_and_exported_it_is_a_plain_call(self, matvec):
        matvec.def_partitioning("b i, i -> b", split="b")
        assert "CustomSPMDPartitioning" not in jax.jit(matvec).lower(A, X).as_text()
        exported = jax.export.export(jax.jit(matvec), platforms=("cpu",), disabled_checks=export_checks())(A, X)
        close(exported.call(A, X), A @ X)

    def test_names_that_do_not_fit_are_refused(self, matvec, mesh):
        matvec.def_partitioning("b, i -> b", split="b")
        rows = jax.device_put(A, NamedSharding(mesh, PartitionSpec("d")))
        with pytest.raises(SignatureError, match=r"operands have \[2, 1\] dimensions"):
            jax.jit(matvec)(rows, X)


class TestPreference:
    def test_a_context_prefers_backends_and_contexts_nest(self, matvec):
        def backend(**options):
            return str(jax.make_jaxpr(lambda A, x: matvec(A, x, **options))(A, X))

        assert "cpu: numba" in backend()
        with use_backend("jnp"):
            assert "cpu: jnp" in backend()
            assert "cpu: numba" in backend(backend="numba")
            with use_backend("warp", "numba"):
                assert "cpu: numba" in backend()
            assert "cpu: jnp" in backend()
        assert "cpu: numba" in backend()

    def test_a_backend_that_is_missing_never_runs_silently_as_another(self, matvec):
        with (
            use_backend("warp", "pallas"),
            pytest.raises(
                BackendError, match=r"matvec: backend 'warp' or 'pallas' is not registered \(registered: cpu"
            ),
        ):
            matvec(A, X)
        with use_backend("warp", "default"):
            close(matvec(A, X), A @ X)

    def test_the_environment_counts_outside_of_contexts(self, matvec, monkeypatch):
        monkeypatch.setitem(os.environ, VARIABLE, "jnp, default")
        assert "cpu: jnp" in str(jax.make_jaxpr(lambda A, x: matvec(A, x))(A, X))
        with use_backend("numba"):
            assert "cpu: numba" in str(jax.make_jaxpr(lambda A, x: matvec(A, x))(A, X))

    def test_each_thread_has_its_own(self, matvec):
        seen = []
        with use_backend("jnp"):
            thread = threading.Thread(target=lambda: seen.append(str(jax.make_jaxpr(matvec)(A, X))))
            thread.start()
            thread.join()
        assert "cpu: numba" in seen[0]


class TestRegistrationMethods:
    def test_each_backend_and_its_platforms(self):
        op = XLACustomKernel("op")

        def generator(outs, interpret=None):
            return lambda: jnp.full(outs[0].shape, -1.0 if interpret is None else interpret, outs[0].dtype)

        op.def_pallas_kernel(generator)
        assert op.available_backends("cpu") == op.available_backends("gpu") == ("pallas",)
        spec = Spec((1,), np.float32)
        assert float(op(outs=spec)[0]) == 1  # interpreted
        op.def_jnp_kernel(generator)
        assert op.defaults == {"cpu": "jnp", "cuda": "pallas", "tpu": "pallas"}
        op.def_triton_kernel(generator)
        op.def_cuda_raw_kernel(generator)
        assert op.available_backends("cuda") == ("pallas", "jnp", "triton", "cuda_raw")
        op.def_warp_kernel(generator)
        assert op.defaults["cpu"] == "warp"
        op.def_numba_kernel(generator)
        assert op.defaults["cpu"] == "numba"
        op.set_default("cpu", "jnp")
        op.def_kernel("other", "cpu", generator)
        assert op.defaults["cpu"] == "jnp"

    def test_outs_as_a_function_gets_arrays_and_parameters(self):
        op = XLACustomKernel("fill", outs=lambda x, count: Spec((count, *x.shape), x.dtype))
        op.def_jnp_kernel(lambda outs, count: lambda x: jnp.broadcast_to(x, outs[0].shape))
        assert op(X, count=3).shape == (3, 5)
        assert op(X, outs=Spec((2, 5), X.dtype), count=2).shape == (2, 5)

    def test_a_side_effect_keeps_a_call_whose_results_are_unused(self):
        calls = []
        for has_side_effect in (False, True):
            op = XLACustomKernel("noted", outs=lambda x: Spec(x.shape, x.dtype), has_side_effect=has_side_effect)
            op.def_jnp_kernel(lambda outs: lambda x: x + 1)
            jaxpr = jax.make_jaxpr(jax.jit(lambda x, op=op: (op(x), x)[1]))(X)
            calls.append(bool(jaxpr.effects))
        assert calls == [False, True]

    def test_a_program_for_both_platforms_can_be_exported_and_run(self, matvec):
        exported = jax.export.export(jax.jit(matvec), platforms=("cpu", "cuda"), disabled_checks=export_checks())(A, X)
        assert set(exported.platforms) == {"cpu", "cuda"}
        close(exported.call(A, X), A @ X)

    def test_registration_tracing_and_execution_from_many_threads(self, matvec):
        failures = []

        def work(index):
            try:
                for step in range(5):
                    matvec.def_kernel(f"k{index}_{step}", "cpu", lambda outs: lambda A, x: A @ x)
                    close(matvec(A, X + step, backend=f"k{index}_{step}"), A @ (X + step))
                    close(jax.jit(lambda A, x: matvec(A, x))(A, X), A @ X)
            except Exception as error:
                failures.append(error)

        def on_the_cpu(index):
            with jax.default_device(jax.devices("cpu")[0]):  # each thread has its own
                work(index)

        threads = [threading.Thread(target=on_the_cpu, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(matvec.available_backends("cpu")) == 2 + 40
