"""Checks that calls stay split over the devices of a mesh, with explicit and with automatic axes."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp
from jax.experimental import serialize_executable
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bridge import (
    GatherWarning,
    KernelCompileError,
    XLACustomKernel,
    export_checks,
    jax_kernel,
    numba_kernel,
)
from suites.unit.bridge import kernels
from suites.unit.bridge.two_processes import COLLECTIVE, ROW, ROWS, multiply, of_rows

Spec = jax.ShapeDtypeStruct
KINDS = [AxisType.Explicit, AxisType.Auto]
STACK = np.stack([ROWS + i for i in range(8)])
WEIGHTS = np.linspace(-1, 1, 8, dtype=np.float32)


@wp.kernel
def noted(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i]


@pytest.fixture(autouse=True)
def many_devices():
    if jax.device_count("cpu") < 4:
        pytest.skip("needs 4 CPU devices, which conftest.py makes unless cells are timed (--profile)")


def _mesh(kind):
    mesh = made((4,), ("d",), kind)
    with jax.set_mesh(mesh):
        yield mesh


@pytest.fixture(params=KINDS, ids=["explicit", "auto"])
def mesh(request):
    """Four devices in a row."""
    yield from _mesh(request.param)


@pytest.fixture
def explicit():
    yield from _mesh(AxisType.Explicit)


@pytest.fixture
def automatic():
    yield from _mesh(AxisType.Auto)


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


of_stack = jax.vmap(of_rows, (0, None))


def products(x, y):
    return jax.vmap(lambda x: jax_kernel(multiply)(x, y)[0])(x)


BATCHES = {
    "a shared argument": (of_rows, ROWS + ROW),
    "shard_map": (lambda x, y: jax.shard_map(of_rows, in_specs=(P("d"), P()), out_specs=P("d"))(x, y), ROWS + ROW),
    "warp": (products, ROWS * ROW),
}


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_stays_split(mesh, case):
    function, expected = BATCHES[case]
    collectives, result, spec = compiled(function, put(mesh, ROWS, "d"), put(mesh, ROW))
    assert (collectives, spec) == (set(), ("d",))
    close(result, expected)


def test_the_gradient_of_a_batch_stays_split(mesh):
    def gradient(x, y, weights):
        return jax.grad(lambda x: (products(x, y) * weights).sum())(x) + 0 * x

    weights = put(mesh, 3 * ROWS**2, "d")
    collectives, result, spec = compiled(gradient, put(mesh, ROWS, "d"), put(mesh, ROW), weights)
    assert (collectives, spec) == (set(), ("d",))
    close(result, 3 * ROWS**2 * ROW)


def test_the_gradient_of_what_every_device_has_is_summed(mesh):
    loss = jax.grad(lambda x, y: products(x, y).sum(), 1)
    inside = jax.shard_map(loss, in_specs=(P("d"), P()), out_specs=P())
    for function in (loss, inside):
        collectives, result, _ = compiled(function, put(mesh, ROWS, "d"), put(mesh, ROW))
        assert collectives == {"all-reduce"}
        close(result, ROWS.sum(0))


@pytest.mark.parametrize("kinds", [*KINDS, (AxisType.Explicit, AxisType.Auto)], ids=["explicit", "auto", "mixed"])
def test_several_axes(kinds):
    mesh = made((2, 2), ("a", "b"), *np.atleast_1d(kinds))
    with jax.set_mesh(mesh):
        for function, array, spec in [
            (of_stack, STACK, ("a", "b")),
            (of_rows, ROWS, (("a", "b"),)),
        ]:
            collectives, result, _ = compiled(function, put(mesh, array, *spec), put(mesh, ROW))
            assert collectives == set()
            close(result, array + ROW)


class TestGathering:
    """What cannot stay split is gathered, and a warning says so."""

    def check(self, function, *args, expected, message):
        with pytest.warns(GatherWarning, match=message):
            collectives, result, _ = compiled(function, *args)
        assert collectives
        close(result, expected)

    def test_a_dimension_of_the_kernel(self, mesh):
        message = r"add: argument 0 is split over the mesh axis 'd' along its dimension 0, but a call needs all of it"
        call = numba_kernel(kernels.add, Spec((8,), np.float32))
        self.check(call, put(mesh, WEIGHTS, "d"), put(mesh, WEIGHTS), expected=2 * WEIGHTS, message=message)

    def test_uneven_parts(self, automatic):
        """A part that XLA fills up would hand the kernel elements of no meaning."""
        args = put(automatic, ROWS, "d"), put(automatic, ROW)
        expected, message = (ROWS + ROW)[:6], "its parts differ in size"
        self.check(lambda x, y: of_rows(x[:6], y), *args, expected=expected, message=message)

    def test_arguments_that_are_split_in_different_ways(self, explicit):
        op = XLACustomKernel("outer", outs=lambda x, y: Spec((x.size, y.size), x.dtype))
        op.def_jnp_kernel(lambda outs: jnp.outer)
        op.def_partitioning("i, j -> i j", split="i j")
        x, message = put(explicit, WEIGHTS, "d"), "argument 1 .* another argument is split in another way"
        self.check(op, x, x, expected=np.outer(WEIGHTS, WEIGHTS), message=message)

    def exported(self, x, y):
        return jax.export.export(jax.jit(of_rows), platforms=["cpu"], disabled_checks=export_checks())(x, y)

    def test_a_program_exported_from_an_explicit_mesh_stays_split(self, explicit):
        arrays = put(explicit, ROWS, "d"), put(explicit, ROW)
        assert compiled(self.exported(*arrays).call, *arrays)[0] == set()

    def test_a_mesh_without_devices_can_be_exported(self):
        mesh = AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))
        x = Spec(ROWS.shape, ROWS.dtype, sharding=NamedSharding(mesh, P("d")))
        y = Spec(ROW.shape, ROW.dtype, sharding=NamedSharding(mesh, P()))
        with pytest.warns(GatherWarning, match="add is exported and runs on a mesh with Auto axes"):
            assert self.exported(x, y).nr_devices == 4


def operator():
    """The product of a matrix and a vector, without rules."""
    op = XLACustomKernel("matvec", outs=lambda A, x: Spec(A.shape[:1], A.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(kernels.product, outs[0]))
    return op


def with_transpose():
    op = operator()
    op.def_transpose(0, lambda cotangents, x, outs: jnp.outer(cotangents[0], x))
    op.def_transpose(1, lambda cotangents, A, outs: A.T @ cotangents[0])
    return op


def test_a_declared_dimension_and_its_gradients_stay_split(mesh):
    """The rule for the vector sums over a dimension that is split, for which explicit JAX names no result."""
    (op := with_transpose()).def_partitioning("b i, i -> b", split="b")

    def loss(A, x, weights):
        return (op(A, x) * weights).sum()

    of_stack = jax.vmap(loss, (0, None, None))
    rows = put(mesh, ROWS, "d"), put(mesh, ROW), put(mesh, WEIGHTS, "d")
    stack = put(mesh, STACK, "d"), put(mesh, ROW), put(mesh, WEIGHTS)
    summed = {"all-reduce"}
    for function, arrays, expected, collectives in [
        (lambda A, x, _: op(A, x), rows, ROWS @ ROW, set()),
        (jax.grad(loss), rows, np.outer(WEIGHTS, ROW), set()),
        (jax.grad(loss, 1), rows, ROWS.T @ WEIGHTS, summed),
        (jax.vmap(jax.grad(loss, 1), (0, None, None)), stack, np.einsum("nbi,b->ni", STACK, WEIGHTS), set()),
        (jax.grad(lambda *each: of_stack(*each).sum(), 1), stack, np.einsum("nbi,b->i", STACK, WEIGHTS), summed),
    ]:
        found, result, _ = compiled(function, *arrays)
        assert found == collectives
        np.testing.assert_allclose(result, expected, rtol=1e-3)


class TestSideEffects:
    """The result of the call is not used. On an automatic mesh, XLA can run such a call only as a whole."""

    def program(self, mesh, call):
        return jax.jit(lambda x: (call(x), x + 1)[1]).lower(put(mesh, WEIGHTS, "d")).compile().as_text()

    def operator(self):
        op = XLACustomKernel("noted", outs=lambda x: Spec(x.shape, x.dtype), has_side_effect=True)
        op.def_warp_kernel(lambda outs: lambda x: jax_kernel(noted, has_side_effect=True)(x)[0])
        op.def_partitioning("i -> i", split="i")
        return op

    def test_on_an_explicit_mesh_it_stays_split(self, explicit):
        assert not COLLECTIVE.search(text := self.program(explicit, self.operator()))
        assert 'custom_call_target="bridge_cpu"' in text

    def test_on_an_automatic_mesh(self, automatic):
        for call in self.operator(), jax_kernel(noted, has_side_effect=True):
            with pytest.warns(GatherWarning, match="has side effects and runs on a mesh with Auto axes"):
                assert 'custom_call_target="bridge_cpu"' in self.program(automatic, call)


def test_a_compiled_program_of_an_automatic_mesh_can_be_saved(automatic):
    program = jax.jit(of_rows).lower(put(automatic, ROWS, "d"), put(automatic, ROW)).compile()
    assert serialize_executable.serialize(program)[0]


def test_errors_of_a_kernel_are_python_exceptions_on_a_mesh(mesh):
    @numba.njit
    def wrong(x, out):
        out[0] = x.missing

    call = jax.vmap(numba_kernel(wrong, Spec((6,), np.float32)))
    with pytest.raises(KernelCompileError, match="missing"):
        jax.jit(call)(put(mesh, ROWS, "d"))
