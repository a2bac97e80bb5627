"""The error bounds of gradients are neither too tight to hold nor too wide to mean anything."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites.backends.backend import Backend
from suites.backends.warp import WarpKernel
from suites.backends.warp_blocks import wp
from suites.cells.tables.differentiable import gradients
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.declare.gradient import Gradient, no_sums
from suites.declare.operator import Limitation
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
    assert sorted(operator.gradient.terms) == floats


@OPERATORS
def test_condition_is_at_least_what_the_jacobian_sums_up(operator):
    inputs, cotangents = _sample(operator)
    indices = tuple(operator.gradient.terms)
    condition = operator.gradient.condition
    # Another function of the same values: the probabilistic bound would be smaller.
    operator = replace(
        operator, gradient=replace(operator.gradient, condition=lambda *all: condition(*all), squares=None)
    )
    expected = true_cotangents(operator, inputs, cotangents).outputs
    with jax.enable_x64(True):
        wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in inputs]
        floats = [out.dtype.kind == "f" for out in operator.outputs(*inputs)]
        jacobians = jax.jacrev(lambda *wide: list(itertools.compress(operator.reference(*wide), floats)), indices)(
            *wide
        )
    for place, index in enumerate(indices):
        sums = np.zeros(inputs[index].shape)
        for jacobian, cotangent in zip(jacobians, itertools.compress(cotangents, floats), strict=True):
            flat = np.abs(jacobian[place]).reshape(cotangent.size, -1)
            sums += (np.abs(cotangent).reshape(1, -1) @ flat).reshape(sums.shape)
        # The margin is the condition times as many roundings as are declared, and what may be flushed to zero.
        terms = operator.gradient.terms[index]
        roundings = terms(*inputs) if callable(terms) else terms
        assert (expected[place].margin >= roundings * 2.0**-24 * sums * (1 - 1e-9)).all()


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
        assert judge(wrong, truth).status is Status.WRONG_VALUE, f"input {list(operator.gradient.terms)[place]}"


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
            if any(not np.array_equal(a, b) for a, b in zip(wrong, right, strict=True)):
                assert judge(wrong, truth).status is Status.WRONG_VALUE


def _in_eleven_bits(array):
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.rint(fraction * 2.0**11) / 2.0**11, exponent).astype(array.dtype)


@pytest.mark.parametrize("name", ["matvec", "scatter_add", "csr_matvec", "cumsum", "sum"])
def test_gradient_of_whole_numbers_must_be_exact(name):
    operator, random = operators()[name], np.random.default_rng(0)
    inputs = tuple(
        random.integers(-8, 9, each.shape).astype(each.dtype) if each.dtype.kind == "f" else each
        for each in operator.sample("float32", 257, 0)
    )
    cotangents = [random.integers(-8, 9, out.shape).astype(np.float32) for out in operator.outputs(*inputs)]
    truth = true_cotangents(operator, inputs, cotangents)
    assert not any(each.margin.any() for each in truth.outputs)
    right = [each.value.astype(np.float32) for each in truth.outputs]
    assert judge(right, truth).status is Status.PASSED
    assert judge([right[0] + np.float32(1 / 8), *right[1:]], truth).status is Status.WRONG_VALUE


def test_gradient_without_one_of_its_terms_is_refused():
    operator = operators()["scatter_add"]
    inputs, cotangents = _sample(operator, 257)
    truth = true_cotangents(operator, inputs, cotangents)
    values, scale, acc = (each.value for each in truth.outputs)
    lost = cotangents[0][inputs[1][-1]] * inputs[0][-1]
    wrong = [array.astype(np.float32) for array in (values, scale - lost, acc)]
    assert judge(wrong, truth).status is Status.WRONG_VALUE


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
        gradient=Gradient({0: lambda x: 2 * x.size}, no_sums),
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
    operator = operators()["scale_add"]
    assert operator.has_gradient(Backend.WARP, "float32")
    assert operator.has_gradient(Backend.JNP, "float32")
    assert not operator.has_gradient(Backend.NUMBA, "float32")
    assert not operator.has_gradient(Backend.WARP, "int32")
    assert not operators()["lif_step"].has_gradient(Backend.WARP, "float32")


def test_limitation_of_a_gradient_is_an_expected_failure_of_its_cells_alone(monkeypatch):
    limitation = Limitation("its adjoint is wrong", (Backend.WARP,), ("float32",))
    monkeypatch.setattr("suites.cells.catalogue.operators", lambda: {"limited": _limited(limitation)})
    marked = {param.values[0].backend: param.marks for param in gradients("cpu") if param.values[0].dtype == "float32"}
    assert [mark.name for mark in marked[Backend.WARP]] == ["xfail"]
    assert marked[Backend.JNP] == []
    others = [param for param in gradients("cpu") if param.values[0].dtype == "float64"]
    assert others
    assert not any(param.marks for param in others)


def _limited(limitation):
    return replace(operators()["scale_add"], gradient=Gradient({0: 1, 1: 1, 2: 0}, limitations=(limitation,)))
