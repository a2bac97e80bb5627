"""Checks that calls stay split over the devices of a mesh, with explicit and with automatic axes."""

import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp
from jax import lax
from jax.experimental import serialize_executable
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bridge import (
    GatherWarning,
    KernelCompileError,
    XLACustomKernel,
    debug_mode,
    export_checks,
    jax_kernel,
    numba_kernel,
)
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
KINDS = [AxisType.Explicit, AxisType.Auto]
COLLECTIVE = re.compile("all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")

ROWS = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
ROW = np.linspace(1, 2, 6, dtype=np.float32)
STACK = np.stack([ROWS + i for i in range(8)])
WEIGHTS = np.linspace(-1, 1, 8, dtype=np.float32)

add = numba_kernel(kernels.add, Spec((6,), np.float32))


@numba.njit
def product(A, x, out):
    for i in range(A.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.size):
            total += A[i, j] * x[j]
        out[i] = total


@wp.kernel
def multiply(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * y[i]


@wp.kernel
def noted(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i]


@pytest.fixture(autouse=True)
def on_the_cpu():
    """Its devices are many, with a GPU or without."""
    if jax.device_count("cpu") < 4:
        pytest.skip("needs 4 CPU devices, which conftest.py makes unless cells are timed (--profile)")
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture(params=KINDS, ids=["explicit", "auto"])
def mesh(request):
    """Four devices in a row."""
    mesh = made((4,), ("d",), request.param)
    with jax.set_mesh(mesh):
        yield mesh


@pytest.fixture
def explicit():
    mesh = made((4,), ("d",), AxisType.Explicit)
    with jax.set_mesh(mesh):
        yield mesh


@pytest.fixture
def automatic():
    mesh = made((4,), ("d",), AxisType.Auto)
    with jax.set_mesh(mesh):
        yield mesh


def made(shape, names, *kinds):
    kinds = kinds * len(shape) if len(kinds) == 1 else kinds
    return jax.make_mesh(shape, names, axis_types=kinds, devices=jax.devices("cpu")[:4])


def put(mesh, array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def compiled(function, *args):
    """The collectives of a program, its result, and how that is split, without trailing None."""
    program = jax.jit(function).lower(*args).compile()
    result = program(*args)
    spec = list(getattr(result.sharding, "spec", ()))  # a result that is not split may lack it
    while spec and spec[-1] is None:
        spec.pop()
    return set(COLLECTIVE.findall(program.as_text())), result, tuple(spec)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def derived(x, y):
    return with_rule(x, y)


with_rule = jax.custom_vjp(add)
with_rule.defvjp(lambda x, y: (add(x, y), None), lambda _, g: (add(g, 0 * g), g))

increment = numba_kernel(kernels.increment, Spec((6,), np.float32), input_output_aliases={0: 0})
one_by_one = numba_kernel(kernels.add, Spec((6,), np.float32), vmap_method="sequential")
of_rows = jax.vmap(add, (0, None))

BATCHES = {
    "a shared argument": (of_rows, ROWS + ROW, ("d",)),
    "another axis": (lambda x, y: jax.vmap(add, (1, None), 1)(x.T, y), (ROWS + ROW).T, (None, "d")),
    "in place": (lambda x, y: jax.vmap(increment)(x), ROWS + 1, ("d",)),
    "sequential": (jax.vmap(one_by_one, (0, None)), ROWS + ROW, ("d",)),
    "a loop": (lambda x, y: lax.fori_loop(0, 3, lambda _, c: of_rows(c, y), x), ROWS + 3 * ROW, ("d",)),
    "scan": (lambda x, y: lax.scan(lambda c, _: (of_rows(c, y), None), x, length=3)[0], ROWS + 3 * ROW, ("d",)),
    "cond": (lambda x, y: lax.cond(y[0] > 0, of_rows, lambda x, y: x, x, y), ROWS + ROW, ("d",)),
    "shard_map": (
        lambda x, y: jax.shard_map(of_rows, in_specs=(P("d"), P()), out_specs=P("d"))(x, y),
        ROWS + ROW,
        ("d",),
    ),
    "warp": (lambda x, y: jax.vmap(lambda x: jax_kernel(multiply)(x, y)[0])(x), ROWS * ROW, ("d",)),
}


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_stays_split(mesh, case):
    function, expected, split = BATCHES[case]
    collectives, result, spec = compiled(function, put(mesh, ROWS, "d"), put(mesh, ROW))
    assert collectives == set()
    assert spec == split
    close(result, expected)


GRADIENTS = {
    "custom_vjp": (jax.vmap(derived, (0, None)), 3 * ROWS**2),
    "custom_vjp under remat": (jax.checkpoint(jax.vmap(derived, (0, None))), 3 * ROWS**2),
    "custom_vjp in scan": (
        lambda x, y: lax.scan(lambda c, _: (jax.vmap(derived, (0, None))(c, y), None), x, length=2)[0],
        3 * ROWS**2,
    ),
    "warp": (lambda x, y: jax.vmap(lambda x: jax_kernel(multiply)(x, y)[0])(x), 3 * ROWS**2 * ROW),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_the_gradient_of_a_batch_stays_split(mesh, case):
    function, expected = GRADIENTS[case]

    def gradient(x, y, weights):
        return jax.grad(lambda x: (function(x, y) * weights).sum())(x) + 0 * x

    weights = put(mesh, 3 * ROWS**2, "d")
    collectives, result, spec = compiled(gradient, put(mesh, ROWS, "d"), put(mesh, ROW), weights)
    assert (collectives, spec) == (set(), ("d",))
    close(result, expected)


def test_the_gradient_of_what_every_device_has_is_summed(mesh):
    def loss(x, y):
        return jax.vmap(lambda x: jax_kernel(multiply)(x, y)[0])(x).sum()

    collectives, result, _ = compiled(jax.grad(loss, 1), put(mesh, ROWS, "d"), put(mesh, ROW))
    assert collectives == {"all-reduce"}
    close(result, ROWS.sum(0))


@pytest.mark.parametrize("kind", KINDS, ids=["explicit", "auto"])
def test_no_context_is_needed(kind):
    mesh = made((4,), ("d",), kind)
    for args, axes in [((put(mesh, ROWS, "d"), ROW), (0, None)), ((ROW, put(mesh, ROWS, "d")), (None, 0))]:
        function = jax.vmap(add, axes)
        collectives, result, spec = compiled(function, *args)
        assert (collectives, spec) == (set(), ("d",))
        close(result, ROWS + ROW)
        close(jax.jit(function)(*args), ROWS + ROW)


def test_a_split_that_begins_inside_the_program(automatic):
    def program(x, y):
        return of_rows(lax.with_sharding_constraint(x, P("d")), y)

    collectives, result, _ = compiled(program, ROWS, ROW)
    assert collectives == set()
    close(result, ROWS + ROW)


class TestSeveralAxes:
    @pytest.mark.parametrize("kind", KINDS, ids=["explicit", "auto"])
    def test_two_batches_and_two_axes_for_one_batch(self, kind):
        mesh = made((2, 2), ("a", "b"), kind)
        both = jax.vmap(of_rows, (0, None))
        with jax.set_mesh(mesh):
            assert compiled(both, put(mesh, STACK, "a", "b"), put(mesh, ROW))[::2] == (set(), ("a", "b"))
            assert compiled(of_rows, put(mesh, ROWS, ("a", "b")), put(mesh, ROW))[::2] == (set(), (("a", "b"),))

    def test_a_mesh_with_explicit_and_automatic_axes(self):
        mesh = made((2, 2), ("a", "b"), AxisType.Explicit, AxisType.Auto)
        both = jax.vmap(of_rows, (0, None))
        with jax.set_mesh(mesh):
            for spec in [("a",), ("b",), ("a", "b"), ("b", "a"), (None, "b")]:
                collectives, result, _ = compiled(both, put(mesh, STACK, *spec), put(mesh, ROW))
                assert collectives == set()
                close(result, STACK + ROW)

    def test_under_shard_map_over_one_of_two_axes(self):
        mesh = made((2, 2), ("a", "b"), AxisType.Auto)

        def program(x, y):
            run = jax.vmap(of_rows, (0, None))
            return jax.shard_map(run, in_specs=(P("a"), P()), out_specs=P("a"), axis_names={"a"})(x, y)

        with jax.set_mesh(mesh):
            collectives, result, _ = compiled(program, put(mesh, STACK, "a", "b"), put(mesh, ROW))
        assert collectives == set()
        close(result, STACK + ROW)

    def test_a_split_that_jax_does_not_tell_is_gathered_with_a_warning(self):
        mesh = jax.make_mesh(
            (1, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3, devices=jax.devices("cpu")[:4]
        )

        def program(x, y):
            run = jax.vmap(of_rows, (0, None))
            return jax.shard_map(run, in_specs=(P("a"), P()), out_specs=P("a"), axis_names={"a"})(x, y)

        with jax.set_mesh(mesh), pytest.warns(GatherWarning, match="argument 0 is split in some way"):
            close(jax.jit(program)(put(mesh, STACK, "b", "c"), put(mesh, ROW)), STACK + ROW)


class TestGathering:
    """What cannot stay split is gathered, and a warning says so."""

    def gathers(self, function, *args, message):
        with pytest.warns(GatherWarning, match=message):
            collectives, result, _ = compiled(function, *args)
        assert collectives
        return result

    def test_a_dimension_of_the_kernel(self, mesh):
        message = r"add: argument 0 is split over the mesh axis 'd' along its dimension 0, but a call needs all of it"
        call = numba_kernel(kernels.add, Spec((8,), np.float32))
        x = put(mesh, WEIGHTS, "d")
        close(self.gathers(call, x, put(mesh, WEIGHTS), message=message), 2 * WEIGHTS)

    def test_a_dimension_of_the_kernel_beside_a_batch(self):
        for kind in KINDS:
            mesh = made((2, 2), ("a", "b"), kind)
            with jax.set_mesh(mesh):
                x = put(mesh, ROWS, "a", "b")
                message = "argument 0 is split over the mesh axis 'b' along its dimension 1"
                close(self.gathers(of_rows, x, put(mesh, ROW), message=message), ROWS + ROW)

    def test_an_operator_without_declared_dimensions(self, mesh):
        op = operator()
        message = "argument 0 is split over the mesh axis 'd' along its dimension 0"
        close(self.gathers(op, put(mesh, ROWS, "d"), put(mesh, ROW), message=message), ROWS @ ROW)

    def test_a_dimension_that_is_not_declared(self, mesh):
        op = operator()
        op.def_partitioning("b i, i -> b", split="b")
        message = "matvec: argument 0 is split over the mesh axis 'd' along its dimension 1"
        columns = np.ascontiguousarray(ROWS.T)
        close(self.gathers(op, put(mesh, columns, None, "d"), put(mesh, WEIGHTS), message=message), columns @ WEIGHTS)

    def test_uneven_parts(self, automatic):
        """A part that XLA fills up would hand the kernel elements of no meaning."""
        message = "its parts differ in size"
        got = self.gathers(
            lambda x, y: of_rows(x[:6], y), put(automatic, ROWS, "d"), put(automatic, ROW), message=message
        )
        close(got, (ROWS + ROW)[:6])

    def test_arguments_that_are_split_in_different_ways(self, explicit):
        op = XLACustomKernel("outer", outs=lambda x, y: Spec((x.size, y.size), x.dtype))
        op.def_jnp_kernel(lambda outs: jnp.outer)
        op.def_partitioning("i, j -> i j", split="i j")
        x, y = put(explicit, WEIGHTS, "d"), put(explicit, WEIGHTS, "d")
        message = "argument 1 .* another argument is split in another way"
        close(self.gathers(op, x, y, message=message), np.outer(WEIGHTS, WEIGHTS))

    def test_resharding_before_the_call_is_no_surprise(self, explicit):
        call = numba_kernel(kernels.add, Spec((8,), np.float32))
        x = put(explicit, WEIGHTS, "d")
        close(jax.jit(lambda x: call(jax.sharding.reshard(x, P()), WEIGHTS))(x), 2 * WEIGHTS)

    def test_a_program_exported_from_an_automatic_mesh(self, automatic):
        with pytest.warns(GatherWarning, match="add is exported on a mesh with Auto axes"):
            self.exported(automatic)

    def test_a_program_exported_from_an_explicit_mesh_stays_split(self, explicit):
        program = self.exported(explicit)
        assert compiled(program.call, put(explicit, ROWS, "d"), put(explicit, ROW))[0] == set()

    def exported(self, mesh):
        program = jax.export.export(jax.jit(of_rows), platforms=["cpu"], disabled_checks=export_checks())
        return program(put(mesh, ROWS, "d"), put(mesh, ROW))

    def test_a_mesh_without_devices_can_be_exported(self):
        mesh = AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))
        x = Spec(ROWS.shape, ROWS.dtype, sharding=NamedSharding(mesh, P("d")))
        y = Spec(ROW.shape, ROW.dtype, sharding=NamedSharding(mesh, P()))
        with pytest.warns(GatherWarning, match="exported"):
            program = jax.export.export(jax.jit(of_rows), platforms=["cpu"], disabled_checks=export_checks())(x, y)
        assert program.nr_devices == 4


def operator():
    """The product of a matrix and a vector, without rules."""
    op = XLACustomKernel("matvec", outs=lambda A, x: Spec(A.shape[:1], A.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(product, outs[0]))
    return op


def with_vjp():
    op = operator()

    def backward(saved, cotangents, outs):
        A, x = saved
        return jnp.outer(cotangents[0], x), A.T @ cotangents[0]

    op.def_vjp(lambda A, x, outs: (op(A, x), (A, x)), backward)
    return op


def with_jvp():
    op = operator()
    op.def_jvp(lambda primals, tangents, outs: (op(*primals), tangents[0] @ primals[1] + primals[0] @ tangents[1]))
    return op


def with_transpose():
    op = operator()
    op.def_transpose(0, lambda cotangents, x, outs: jnp.outer(cotangents[0], x))
    op.def_transpose(1, lambda cotangents, A, outs: A.T @ cotangents[0])
    return op


RULES = {"def_vjp": with_vjp, "def_jvp": with_jvp, "def_transpose": with_transpose}


@pytest.mark.parametrize("rule", RULES)
class TestRules:
    """The rule for the vector sums over a dimension that is split, for which explicit JAX names no result."""

    @pytest.fixture
    def op(self, rule):
        op = RULES[rule]()
        op.def_partitioning("b i, i -> b", split="b")
        return op

    def loss(self, op):
        return lambda A, x, weights: (op(A, x) * weights).sum()

    def test_a_declared_dimension_stays_split(self, op, mesh):
        collectives, result, spec = compiled(op, put(mesh, ROWS, "d"), put(mesh, ROW))
        assert (collectives, spec) == (set(), ("d",))
        close(result, ROWS @ ROW)

    def test_gradients(self, op, mesh):
        args = put(mesh, ROWS, "d"), put(mesh, ROW), put(mesh, WEIGHTS, "d")
        collectives, result, _ = compiled(jax.grad(self.loss(op)), *args)
        assert collectives == set()
        close(result, np.outer(WEIGHTS, ROW))
        collectives, result, _ = compiled(jax.grad(self.loss(op), 1), *args)
        assert collectives == {"all-reduce"}
        np.testing.assert_allclose(result, ROWS.T @ WEIGHTS, rtol=1e-3)

    def test_vmap_of_gradients(self, op, mesh):
        args = put(mesh, STACK, "d"), put(mesh, ROW), put(mesh, WEIGHTS)
        collectives, result, _ = compiled(jax.vmap(jax.grad(self.loss(op), 1), (0, None, None)), *args)
        assert collectives == set()
        np.testing.assert_allclose(result, np.einsum("nbi,b->ni", STACK, WEIGHTS), rtol=1e-3)

    def test_gradients_of_vmap(self, op, mesh):
        def total(A, x, weights):
            return jax.vmap(self.loss(op), (0, None, None))(A, x, weights).sum()

        args = put(mesh, STACK, "d"), put(mesh, ROW), put(mesh, WEIGHTS)
        collectives, result, _ = compiled(jax.grad(total, 1), *args)
        assert collectives == {"all-reduce"}
        np.testing.assert_allclose(result, np.einsum("nbi,b->i", STACK, WEIGHTS), rtol=1e-3)

    def test_gradients_in_scan(self, op, mesh):
        def total(A, x, weights):
            return lax.scan(lambda c, _: (c + self.loss(op)(A, x, weights), None), 0.0, length=2)[0]

        args = put(mesh, ROWS, "d"), put(mesh, ROW), put(mesh, WEIGHTS, "d")
        close(jax.jit(jax.grad(total))(*args), 2 * np.outer(WEIGHTS, ROW))

    def test_an_operator_without_declared_dimensions(self, rule, mesh):
        loss = self.loss(RULES[rule]())
        args = put(mesh, ROWS, "d"), put(mesh, ROW), put(mesh, WEIGHTS)
        with pytest.warns(GatherWarning, match="argument 0 is split"):
            value, gradient = jax.jit(jax.value_and_grad(loss))(*args)
        close(value, (ROWS @ ROW) @ WEIGHTS)
        close(gradient, np.outer(WEIGHTS, ROW))


class TestOperators:
    def test_a_batching_rule(self, mesh):
        op = operator()

        def rule(extent, is_batched, A, x, outs):
            assert is_batched == (True, False)
            return jnp.einsum("nbi,i->nb", A, x)

        op.def_batching(rule)
        collectives, result, spec = compiled(jax.vmap(op, (0, None)), put(mesh, STACK, "d"), put(mesh, ROW))
        assert (collectives, spec) == (set(), ("d",))
        close(result, STACK @ ROW)

    def test_a_batching_rule_whose_result_is_not_split(self, explicit):
        op = operator()
        op.def_batching(lambda extent, is_batched, A, x, outs: jax.sharding.reshard(A, P()) @ x)
        result = jax.jit(jax.vmap(op, (0, None)))(put(explicit, STACK, "d"), put(explicit, ROW))
        assert jax.typeof(result).sharding.spec == P("d", None)
        close(result, STACK @ ROW)

    def test_a_kernel_that_is_a_function_of_jax(self, mesh):
        """It gets the part of one device, so an explicit mesh does not show in the types of its arrays."""
        op = XLACustomKernel("matvec", outs=lambda A, x: Spec(A.shape[:1], A.dtype))
        op.def_jnp_kernel(lambda outs: lambda A, x: A @ A.T @ jnp.ones(A.shape[0]) * (A @ x))
        stack = jax.vmap(op, (0, None))
        expected = np.stack([(A @ A.T) @ np.ones(8) * (A @ ROW) for A in STACK])
        collectives, result, _ = compiled(stack, put(mesh, STACK, "d"), put(mesh, ROW))
        assert collectives == set()
        np.testing.assert_allclose(result, expected, rtol=1e-3)

    @pytest.mark.parametrize("names", ["rows columns, columns -> rows", "batch0 i, i -> batch0", "_a b2c, b2c -> _a"])
    def test_dimensions_may_have_any_name(self, mesh, names):
        op = operator()
        op.def_partitioning(names, split=names.split()[0])
        assert compiled(op, put(mesh, ROWS, "d"), put(mesh, ROW))[::2] == (set(), ("d",))
        both = compiled(jax.vmap(op, (0, None)), put(mesh, STACK, "d"), put(mesh, ROW))
        assert both[::2] == (set(), ("d",))


class TestSideEffects:
    """The result of the call is not used. On an automatic mesh, XLA can run such a call only as a whole."""

    def program(self, mesh, call):
        return jax.jit(lambda x: (call(x), x + 1)[1]).lower(put(mesh, WEIGHTS, "d")).compile().as_text()

    def operator(self):
        op = XLACustomKernel("noted", outs=lambda x: Spec(x.shape, x.dtype), has_side_effect=True)
        op.def_warp_kernel(lambda outs: lambda x: jax_kernel(noted, has_side_effect=True)(x)[0])
        op.def_partitioning("i -> i", split="i")
        return op

    def test_on_an_explicit_mesh(self, explicit):
        text = self.program(explicit, self.operator())
        assert 'custom_call_target="bridge_cpu"' in text
        assert not COLLECTIVE.search(text)

    def test_on_an_automatic_mesh(self, automatic):
        for call in self.operator(), jax_kernel(noted, has_side_effect=True):
            with pytest.warns(GatherWarning, match="has side effects and runs on a mesh with Auto axes"):
                assert 'custom_call_target="bridge_cpu"' in self.program(automatic, call)


class TestDebugMode:
    def test_an_operator(self, explicit):
        op = operator()
        op.def_jnp_kernel(lambda outs: jnp.matmul)
        op.def_partitioning("b i, i -> b", split="b")
        with debug_mode():
            close(jax.jit(lambda A, x: op(A, x))(put(explicit, ROWS, "d"), put(explicit, ROW)), ROWS @ ROW)
            stack = jax.jit(jax.vmap(lambda A, x: op(A, x), (0, None)))
            close(stack(put(explicit, STACK, "d"), put(explicit, ROW)), STACK @ ROW)

    def test_a_batch_of_a_kernel(self, mesh):
        call = numba_kernel(kernels.add, Spec((6,), np.float32))
        with debug_mode():
            close(jax.jit(jax.vmap(call, (0, None)))(put(mesh, ROWS, "d"), put(mesh, ROW)), ROWS + ROW)


def test_a_compiled_program_of_an_automatic_mesh_can_be_saved(automatic):
    program = jax.jit(of_rows).lower(put(automatic, ROWS, "d"), put(automatic, ROW)).compile()
    assert serialize_executable.serialize(program)[0]


def test_the_result_of_a_callback_on_one_device(automatic):
    def program(x, y):
        twice = jax.pure_callback(lambda y: 2 * np.asarray(y), Spec(ROW.shape, ROW.dtype), y)
        return of_rows(x, twice)

    close(jax.jit(program)(put(automatic, ROWS, "d"), put(automatic, ROW)), ROWS + 2 * ROW)


def test_errors_of_a_kernel_are_python_exceptions_on_a_mesh(mesh):
    @numba.njit
    def wrong(x, out):
        out[0] = x.missing

    call = jax.vmap(numba_kernel(wrong, Spec((6,), np.float32)))
    with pytest.raises(KernelCompileError, match="missing"):
        jax.jit(call)(put(mesh, ROWS, "d"))
