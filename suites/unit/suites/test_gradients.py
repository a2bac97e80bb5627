"""The error bounds of gradients are neither too tight to hold nor too wide to mean anything."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites.backends.backend import Backend
from suites.backends.warp import WarpKernel
from suites.backends.warp_blocks import wp
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.declare.gradient import Gradient
from suites.numerics.verdict import judge
from suites.ops import operators

DIFFERENTIABLE = {name: operator for name, operator in operators().items() if operator.gradient is not None}
OPERATORS = pytest.mark.parametrize("operator", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)


def _sample(operator, size=13):
    inputs = operator.sample("float32", size, 0)
    return inputs, random_cotangents(operator, inputs, 1)


@OPERATORS
def test_every_float_input_has_a_cotangent(operator):
    inputs, _ = _sample(operator)
    floats = [index for index, array in enumerate(inputs) if array.dtype.kind == "f"]
    assert operator.differentiated(inputs) == floats


@OPERATORS
@pytest.mark.parametrize("factor", [0, 0.999, 1.001, -1])
def test_gradient_that_is_off_by_a_factor_is_refused(operator, factor):
    inputs, cotangents = _sample(operator, (operator.gradient.sizes or (257,))[0])
    truth = true_cotangents(operator, inputs, cotangents)
    right = [each.value.astype(np.float32) for each in truth.outputs]
    assert judge(right, truth).status is Status.PASSED
    for place, each in enumerate(right):
        if not each.any():  # constant in this input: its factor says nothing
            continue
        wrong = [np.float32(factor) * other if other is each else other for other in right]
        assert judge(wrong, truth).status is Status.WRONG_VALUE, f"input {operator.differentiated(inputs)[place]}"


@OPERATORS
def test_gradient_that_misses_a_cotangent_or_rounds_to_eleven_bits_is_refused(operator):
    inputs, cotangents = _sample(operator, (operator.gradient.sizes or (257,))[0])
    truth = true_cotangents(operator, inputs, cotangents)
    right = [each.value.astype(np.float32) for each in truth.outputs]
    for index, cotangent in enumerate(cotangents):
        if cotangent.dtype != np.float32:
            continue
        missing = cotangent.copy()
        missing.flat[np.flatnonzero(np.abs(cotangent) >= np.median(np.abs(cotangent)))[-1]] = 0
        for spoiled in (missing, _in_eleven_bits(cotangent)):
            others = [spoiled if place == index else each for place, each in enumerate(cotangents)]
            wrong = [each.value.astype(np.float32) for each in true_cotangents(operator, inputs, others).outputs]
            narrow = spoiled is not missing and operator.name in LONG_CHAINS
            if not narrow and any(not np.array_equal(a, b) for a, b in zip(wrong, right, strict=True)):
                assert judge(wrong, truth).status is Status.WRONG_VALUE


LONG_CHAINS = {"linear_recurrence", "mean_std", "nbody"}
"""Other orders of their many additions and multiplications lose as much as cotangents of 11 bits."""


def _in_eleven_bits(array):
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.rint(fraction * 2.0**11) / 2.0**11, exponent).astype(array.dtype)


@wp.kernel(module="unique")
def product(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    """Its adjoint is known to be wrong: it needs each value that ``result`` had, of which the loop leaves the last."""
    result = x[0]
    for i in range(1, x.shape[0]):
        result = result * x[i]
    out[0] = result


def test_wrong_adjoint_is_caught():
    operator = replace(
        operators()["sum"],
        name="product",
        reference=lambda x: [jnp.prod(x, keepdims=True)],
        kernels={Backend.WARP: WarpKernel(lambda dtype: product, lambda inputs, outs: {"launch_dims": 1})},
        gradient=Gradient(inputs=(0,)),
    )
    inputs = (np.arange(1, 6, dtype=np.float32),)
    cotangents = random_cotangents(operator, inputs, 0)
    for backend, status in {Backend.JNP: Status.PASSED, Backend.WARP: Status.WRONG_VALUE}.items():
        _, vjp = jax.vjp(operator.build(backend, inputs), *map(jnp.asarray, inputs))
        found = vjp([jnp.asarray(each) for each in cotangents])
        verdict = judge([np.asarray(each) for each in found], true_cotangents(operator, inputs, cotangents))
        assert verdict.status is status


def test_integers_have_cotangents_of_no_type():
    operator = operators()["lif_step"]
    cotangents = random_cotangents(operator, operator.sample("float32", 5, 0), 0)
    assert [each.dtype for each in cotangents] == [np.float32, jax.dtypes.float0]


def test_gradients_are_of_kernels_with_an_adjoint_and_of_the_reference():
    operator = operators()["add"]
    assert operator.has_gradient(Backend.WARP, "float32")
    assert operator.has_gradient(Backend.JNP, "float32")
    assert not operator.has_gradient(Backend.NUMBA, "float32")
    assert not operator.has_gradient(Backend.WARP, "int32")
    assert not operators()["lif_step"].has_gradient(Backend.WARP, "float32")
