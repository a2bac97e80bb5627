"""A function of JAX arrays that calls kernels is checked like a kernel, with its own derivative."""

import jax
import numba
import pytest

import bridge
from suites import JaxKernel, Operator, OperatorError
from suites.checks.judging.evidence import CheckFailed
from suites.unit.suites.named_checks import run_check


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


@pytest.mark.parametrize("make", [_with_vjp, _with_jvp, lambda factor: JaxKernel(_with_vjp(factor), calls=1)])
def test_a_function_with_a_rule(make):
    operator = _operator(make(2))
    for check in ("compiled", "x64", "vmap0", "vmap grad"):
        run_check(check, operator)
    run_check("vmap", operator, variant="nested")
    run_check("grad grad", operator)


@pytest.mark.parametrize("make", [_with_vjp, _with_jvp])
def test_a_wrong_rule_is_caught(make):
    with pytest.raises(CheckFailed, match="the derivative of the reference is required"):
        run_check("grad", _operator(make(3)))


def test_code_of_xla_is_no_kernel():
    with pytest.raises(CheckFailed, match="contains 0 calls of kernels, expected at least 1"):
        run_check("compiled", _operator(jax.jit(lambda x: x * x)))


def test_a_plain_function_is_refused_with_both_ways():
    with pytest.raises(OperatorError, match=r"plain Python function .* with numba.njit\. .* suites.JaxKernel"):
        _operator(call_of_a_kernel)


def call_of_a_kernel(x):
    return _kernel(x)
