"""A function of JAX arrays that calls kernels is checked like a kernel, with its own derivative."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from suites import Backend, JaxKernel, Operator, OperatorError
from suites.cells.case import Case
from suites.checks import (
    test_eager,
    test_grad,
    test_grad_eager,
    test_grad_grad,
    test_grad_vmap,
    test_jit,
    test_jvp,
    test_jvp_vmap,
    test_scan,
    test_vmap,
    test_vmap0,
    test_vmap_grad,
)
from suites.checks.judging.evidence import CheckFailed, Evidence


@numba.njit
def square_numba(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


_kernel = bridge.numba_kernel(square_numba, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))


def _with_vjp(factor):
    @jax.custom_vjp
    def square(x):
        return _kernel(x)

    square.defvjp(lambda x: (_kernel(x), x), lambda x, g: (factor * x * g,))
    return square


def _with_jvp(factor):
    @jax.custom_jvp
    def square(x):
        return _kernel(x)

    square.defjvp(lambda primals, tangents: (square(*primals), factor * primals[0] * tangents[0]))
    return square


def _operator(kernel):
    return Operator(name="square", reference=lambda x: x * x, kernels={"numba": kernel}, dtypes="float32")


def _run(check, operator, variant=None):
    evidence = Evidence()
    (test,) = (value for name, value in vars(check).items() if name.startswith("test_"))
    test(Case(operator, Backend.NUMBA, "float32", 33, "cpu", variant), evidence)


@pytest.mark.parametrize("make", [_with_vjp, _with_jvp, lambda factor: JaxKernel(_with_vjp(factor), calls=1)])
def test_a_function_with_a_rule(make):
    operator = _operator(make(2))
    for check in (test_eager, test_jit, test_scan, test_vmap0, test_grad_eager, test_vmap_grad, test_grad_vmap):
        _run(check, operator)
    _run(test_vmap, operator, "nested")
    _run(test_grad_grad, operator)


@pytest.mark.parametrize("make", [_with_vjp, _with_jvp])
def test_a_wrong_rule_is_caught(make):
    with pytest.raises(CheckFailed, match="the derivative of the reference is required"):
        _run(test_grad, _operator(make(3)))


def test_forward_mode():
    for check in (test_jvp, test_jvp_vmap):
        _run(check, _operator(_with_jvp(2)))
        with pytest.raises(CheckFailed, match="WRONG_VALUE"):
            _run(check, _operator(_with_jvp(3)))


def test_a_compiled_function_has_no_derivative_unless_it_is_declared():
    composed = jax.jit(lambda x: _kernel(jnp.abs(x)))
    operator = _operator(composed)
    _run(test_jit, operator)
    assert not operator.has_gradient(Backend.NUMBA, "float32")
    assert _operator(JaxKernel(_with_vjp(2).__call__, differentiable=True)).has_gradient(Backend.NUMBA, "float32")


def test_equal_functions_share_what_is_compiled():
    square = _with_vjp(2)
    spec = [jax.ShapeDtypeStruct((3,), np.float32)]
    first, second = (_operator(square).build(Backend.NUMBA, spec) for _ in range(2))
    assert first is second


def test_code_of_xla_is_no_kernel():
    with pytest.raises(CheckFailed, match="contains 0 calls of kernels, expected at least 1"):
        _run(test_jit, _operator(jax.jit(lambda x: x * x)))


def test_a_plain_function_is_refused_with_both_ways():
    with pytest.raises(OperatorError, match=r"plain Python function .* with numba.njit\. .* suites.JaxKernel"):
        _operator(call_of_a_kernel)


def call_of_a_kernel(x):
    return _kernel(x)
