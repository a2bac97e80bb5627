"""Kernels with options, wrappers that a user has in her hands, and updates in place are declared and checked."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

import bridge
from suites import Gradient, JaxKernel, NumbaKernel, Operator, WarpCallable, WarpKernel
from suites.backends import BACKENDS
from suites.checks.judging.evidence import CheckFailed
from suites.kernels.kernel import LaunchedKernel
from suites.unit.bridge import kernels
from suites.unit.suites.named_checks import run_check


@numba.njit
def accumulate(acc, x, out):
    for i in range(out.size):
        acc[i] += x[i]  # out has the memory of acc


@wp.kernel
def double_warp(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


@wp.kernel(enable_backward=False)
def double_without_adjoint(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


def _doubling(kernel, backend="numba", **more):
    return Operator(name="double", reference=lambda x: 2 * x, kernels={backend: kernel}, dtypes="float32", **more)


def _struct(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


class Launched(LaunchedKernel):
    wrapper = staticmethod(bridge.numba_kernel)


@numba.njit
def plus_rows(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + i


def test_a_launch_arranges_the_arrays_before_the_kernel_also_of_a_batch():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for arrange, given in ((None, x), (lambda x: (x.T,), x.T)):
        wanted, launch = given + np.arange(len(given))[:, None], {"arrange": arrange}
        call = Launched(plus_rows, lambda *_, launch=launch: launch).build([x], [_struct(*wanted.shape)])
        np.testing.assert_array_equal(call(x)[0], wanted)
        np.testing.assert_array_equal(jax.vmap(call)(np.stack([x, x]))[0][1], wanted)


def test_a_numba_kernel_with_an_alias_is_a_function_of_values():
    aliased = NumbaKernel(accumulate, input_output_aliases={0: 0})
    operator = Operator(name="accumulate", reference=lambda acc, x: acc + x, kernels={"numba": aliased})
    for check in ("compiled", "in place", "vmap0"):
        run_check(check, operator)


class TestWrappers:
    @pytest.mark.parametrize("outs", [_struct(5), lambda x: [_struct(*x.shape)]])
    def test_a_wrapped_numba_kernel_serves_every_size(self, outs):
        operator = _doubling(bridge.numba_kernel(kernels.double, outs))
        for check in ("compiled", "vmap0"):
            run_check(check, operator)

    def test_a_wrapped_warp_kernel_serves_every_size(self):
        operator = _doubling(bridge.jax_kernel(double_warp), "warp", gradient=Gradient())
        for check in ("compiled", "vmap grad"):
            run_check(check, operator, BACKENDS["warp"])

    @pytest.mark.parametrize(
        ("kernel", "has"),
        [
            (double_warp, True),
            (bridge.jax_kernel(double_warp), True),
            (double_without_adjoint, False),
            (bridge.jax_kernel(double_warp, enable_backward=False), False),
            (WarpKernel(double_warp, {"has_side_effect": True}), False),
            (WarpCallable(lambda inputs, outs: bridge.jax_kernel(double_warp), calls=1), False),
        ],
    )
    def test_a_warp_kernel_has_the_derivative_that_warp_generates(self, kernel, has):
        declared = _doubling(kernel, "warp", gradient=Gradient())
        assert declared.has_gradient(BACKENDS["warp"], "float32") is has


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("warp", WarpCallable(lambda inputs, outs: lambda x: bridge.jax_kernel(double_warp)(x)[0], calls=1)),
        ("pallas", lambda x: {"a": 2 * x}),
    ],
)
def test_what_a_callable_returns_is_put_into_a_list(backend, kernel):
    operator = _doubling(kernel, backend)
    (own,) = operator.kernels
    (found,) = operator.build(own, [_struct(3)])(jnp.ones(3, jnp.float32))
    assert found.tolist() == [2, 2, 2]


# A function of JAX arrays that calls kernels is checked like a kernel, with its own derivative.


@numba.njit
def square_numba(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


_kernel = bridge.numba_kernel(square_numba, kernels.like)


_with_vjp = jax.custom_vjp(lambda x: _kernel(x))
_with_vjp.defvjp(lambda x: (_kernel(x), x), lambda x, g: (2 * x * g,))
_with_jvp = jax.custom_jvp(lambda x: _kernel(x))
_with_jvp.defjvp(lambda primals, tangents: (_kernel(*primals), 2 * primals[0] * tangents[0]))


def _operator(kernel):
    return Operator(name="square", reference=lambda x: x * x, kernels={"numba": kernel}, dtypes="float32")


@pytest.mark.parametrize("kernel", [_with_vjp, _with_jvp, JaxKernel(_with_vjp, calls=1)])
def test_a_function_with_a_rule(kernel):
    operator = _operator(kernel)
    for check in ("compiled", "x64", "vmap0", "vmap grad"):
        run_check(check, operator)
    run_check("vmap", operator, variant="nested")
    run_check("grad grad", operator)


def test_code_of_xla_is_no_kernel():
    with pytest.raises(CheckFailed, match="contains 0 calls of kernels, expected at least 1"):
        run_check("compiled", _operator(jax.jit(lambda x: x * x)))
