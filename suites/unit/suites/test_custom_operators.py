"""An operator with several kernels, parameters and rules is declared in a line, and each wrong rule is caught."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import XLACustomKernel, numba_kernel
from reports import Status
from suites import CustomKernel, Gradient, Operator, OperatorError, operator_of
from suites.backends import BACKENDS
from suites.checks.judging.evidence import CheckFailed
from suites.declare.contradictions import verify
from suites.declare.differentiation import why_no_gradient
from suites.unit.bridge import kernels
from suites.unit.suites.named_checks import run_check


def _same(x, **parameters):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _scaled(outs, factor):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = x.dtype.type(factor) * x[i] * x[i]

    return numba_kernel(scale, outs[0])


def _in_blocks(outs, factor, block):
    @numba.njit
    def scale(x, out):
        for start in range(0, x.size, block):
            for i in range(start, min(start + block, x.size)):
                out[i] = x.dtype.type(factor) * x[i] * x[i]

    return numba_kernel(scale, outs[0])


def _operator(vjp=None, jvp=None, batching=None, **more):
    """``factor * x**2`` with kernels in two backends, one of them with two configurations."""
    custom = XLACustomKernel("my square", outs=_same)
    custom.def_jnp_kernel(lambda outs, factor: lambda x: factor * x * x)
    custom.def_numba_kernel(_scaled)
    sizes = {"block=64": {"block": 64}, "block=256": {"block": 256}}
    custom.def_kernel("Blocked", "cpu", _in_blocks, configurations=sizes)
    if vjp is not None:
        custom.def_vjp(lambda x, outs, factor: (custom(x, factor=factor), x), vjp)
    if jvp is not None:
        custom.def_jvp(functools.partial(jvp, custom))
    if batching is not None:
        custom.def_batching(functools.partial(batching, custom))
    return operator_of(custom, {"factor": 3.0}, **more)


def _right_vjp(x, cotangents, outs, factor):
    return (2 * factor * x * cotangents[0],)


def _right_jvp(custom, primals, tangents, outs, factor):
    return custom(primals[0], factor=factor), [2 * factor * primals[0] * tangents[0]]


def _right_batching(custom, extent, is_batched, x, outs, factor):
    flat = jax.ShapeDtypeStruct((x.size,), x.dtype)
    return custom(x.reshape(-1), factor=factor, outs=flat).reshape(x.shape)


class TestDeclaration:
    def test_each_backend_and_configuration_is_a_column(self):
        operator = _operator()
        assert operator.name == "my_square"
        assert [backend.id for backend in operator.backends()] == ["jnp", "numba", "blocked", "blocked_block_256"]
        assert operator.sample("float32", 5, 0)[0].shape == (5,)
        verify(operator)
        for backend in operator.kernels:
            assert operator.unsupported(backend, "cpu", "float32") is None
            run_check("compiled", operator, backend)
        assert operator.unsupported(BACKENDS["numba"], "cuda", "float32") == "numba runs on cpu, not on cuda"
        blocked = next(backend for backend in operator.kernels if backend.id == "blocked")
        assert operator.unsupported(blocked, "cuda", "float32") == "my square has no kernel 'Blocked' for cuda"

    @pytest.mark.parametrize(
        "declare",
        [
            lambda custom: CustomKernel(custom, factor=3.0),
            lambda custom: CustomKernel(custom, "numba", factor=3.0),
            lambda custom: functools.partial(custom, factor=3.0),
        ],
    )
    def test_a_backend_alone(self, declare):
        custom = _operator().kernels[BACKENDS["numba"]].operator
        kernels = {"numba": declare(custom)}
        operator = Operator(name="square", reference=lambda x: 3 * x * x, kernels=kernels, outputs=_same)
        run_check("compiled", operator)
        assert not operator.has_gradient(BACKENDS["numba"], "float32")

    @pytest.mark.parametrize(
        ("declare", "message"),
        [
            (lambda custom: operator_of(XLACustomKernel("a")), "a: the operator has no function outs, .* Pass outs="),
            (lambda custom: operator_of(custom), "double: the operator has no jnp kernel to compare with"),
            (lambda custom: CustomKernel(custom, "warp"), "double has no backend 'warp' .registered: cpu: numba"),
            (
                lambda custom: Operator(name="a", reference=lambda x: x, kernels={"warp": custom}),
                r"a: kernels\['warp'\]: the operator double has no backend 'warp'",
            ),
        ],
    )
    def test_a_mistake_is_explained(self, declare, message):
        custom = XLACustomKernel("double", outs=_same)
        custom.def_numba_kernel(lambda outs: numba_kernel(kernels.double, list(outs)))
        with pytest.raises(OperatorError, match=message):
            declare(custom)


RULES = {
    "vjp": {"vjp": _right_vjp},
    "jvp": {"jvp": _right_jvp},
    "batching": {"vjp": _right_vjp, "batching": _right_batching},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_right_rules_pass(rules):
    operator = _operator(**rules)
    for check in ("grad", "grad grad", "vmap grad"):
        run_check(check, operator)
    run_check("vmap", operator, variant="first_axis")
    if "jvp" in rules:
        run_check("jvp", operator)


def test_a_wrong_rule_is_caught():
    with pytest.raises(CheckFailed, match=r"WRONG_VALUE.*the derivative of the reference is required"):
        run_check("grad", _operator(vjp=lambda x, g, outs, factor: (6 * factor * x * g[0],)))


@numba.njit
def running_rows(x, out):
    for r in range(x.shape[0]):
        total = x.dtype.type(0)
        for c in range(x.shape[1]):
            total += x[r, c]
            out[r, c] = total


def test_the_check_shard_splits_every_axis_and_allows_a_right_rule():
    def rows(split):
        made = XLACustomKernel("rows", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
        made.def_numba_kernel(lambda outs: numba_kernel(running_rows, outs[0]))
        made.def_jnp_kernel(lambda outs: lambda x: jnp.cumsum(x, axis=1))
        made.def_partitioning("r c -> r c", split=split)
        operator = operator_of(made, shapes=("m n",), dtypes=("float32",))
        return operator, next(iter(operator.kernels))

    run_check("shard", *rows("r"))
    with pytest.raises(CheckFailed, match=r"WRONG_VALUE: .*one call, split over devices"):
        run_check("shard", *rows("c"))


def test_a_surrogate_derivative_is_that_of_a_reference_with_the_same_rule():
    @numba.njit
    def step(x, out):
        for i in range(x.size):
            out[i] = 1 if x[i] > 0 else 0

    custom = XLACustomKernel("step", outs=_same)
    custom.def_jnp_kernel(lambda outs: lambda x: (x > 0).astype(x.dtype))
    custom.def_numba_kernel(lambda outs: numba_kernel(step, outs[0]))
    custom.def_vjp(lambda x, outs: (custom(x), x), lambda x, cotangents, outs: (cotangents[0] / (1 + jnp.abs(x)) ** 2,))
    with pytest.raises(CheckFailed, match=r"jax.custom_vjp; if there is to be none, declare gradient=None"):
        run_check("grad", operator_of(custom))

    @jax.custom_vjp
    def surrogate(x):
        return (x > 0).astype(x.dtype)

    surrogate.defvjp(lambda x: (surrogate(x), x), lambda x, g: (g / (1 + jnp.abs(x)) ** 2,))
    run_check("grad", operator_of(custom, reference=surrogate))


class TestDerivedGradients:
    def test_a_reference_without_a_derivative_is_a_reason_to_skip(self):
        def powers(x):
            return jax.lax.while_loop(lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] * x), (0, x))[1]

        operator = _operator(vjp=_right_vjp, reference=powers)
        assert not operator.has_gradient(BACKENDS["numba"], "float32")
        reason = why_no_gradient(operator, BACKENDS["numba"], "float32")
        assert "the reference of my_square has no derivative in reverse mode" in reason

    def test_where_the_derivative_is_undefined_anything_goes_and_nowhere_is_unchecked(self):
        root = Operator(name="root", reference=jnp.sqrt, kernels={"numba": kernels.double}, gradient=Gradient())
        from suites.checks.judging.gradients import judge_derivative, true_cotangents

        x, g = np.array([-1, 4], np.float32), np.ones(2, np.float32)
        truth = true_cotangents(root, (x,), [g])
        assert judge_derivative([np.array([7, 0.25], np.float32)], truth).status is Status.PASSED
        assert judge_derivative([np.array([7, 0.26], np.float32)], truth).status is Status.WRONG_VALUE
        truth = true_cotangents(root, (-x[1:],), [g[1:]])
        assert judge_derivative([np.array([7], np.float32)], truth).status is Status.UNCHECKED
