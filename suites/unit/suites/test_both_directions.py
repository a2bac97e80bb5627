"""A call and its derivative are one program, judged and timed like any operator, in every kernel language."""

import random

import jax
import numba
import numpy as np
import pytest

from bridge import XLACustomKernel, numba_kernel
from reports import Status
from suites import Operator, OperatorError, operator_of
from suites.backends import BACKENDS
from suites.bench.timed_process import TimedProcess
from suites.cells.case import Case
from suites.checks.judging.cell_verdict import judge_kernel
from suites.declare.differentiation import function_of
from suites.numerics.precision import precision
from suites.ops import operators
from suites.timing.timed_selection import MODE, both_directions, case_of_both_directions, forward_and_backward


@numba.njit
def square(x, y, out):
    for i in range(x.size):
        out[i] = y[i] * x[i] * x[i]


def _numba_operator(factor=2.0):
    """``y * x**2`` with a rule for its derivative, which is right for a factor of 2."""
    custom = XLACustomKernel("square", outs=lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype))
    custom.def_jnp_kernel(lambda outs: lambda x, y: y * x * x)
    custom.def_numba_kernel(lambda outs: numba_kernel(square, outs[0]))
    custom.def_vjp(
        lambda x, y, outs: (custom(x, y), (x, y)),
        lambda kept, cotangents, outs: (factor * kept[0] * kept[1] * cotangents[0], kept[0] ** 2 * cotangents[0]),
    )
    return operator_of(custom)


CASES = {
    "add": (operators()["add"], "warp"),
    "csr_matvec": (operators()["csr_matvec"], "warp"),
    "softmax": (operators()["softmax"], "jnp"),
    "split_sign": (operators()["split_sign"], "warp"),
    "sum": (operators()["sum"], "warp"),
    "numba_rule": (_numba_operator(), "XLACustomKernel"),
}


def _backend(operator, name):
    return next((each for each in operator.backends() if each.id == name), operator.backends()[-1])


@pytest.mark.parametrize(("operator", "name"), CASES.values(), ids=CASES)
def test_both_directions_are_right_and_are_what_jax_computes(operator, name):
    both, backend = both_directions(operator), _backend(operator, name)
    with precision("float32"):
        arrays = both.sample("float32", 500, 0)
        assert judge_kernel(both, backend, arrays).status is Status.PASSED
        count = len(operator.sample("float32", 500, 0))
        inputs, cotangents = arrays[:count], arrays[count:]
        function, floats = function_of(operator.reference, inputs, operator.differentiated(inputs))
        outs, pullback = jax.vjp(function, *floats)
        expected = [*outs, *pullback(list(cotangents))]
        found = jax.jit(forward_and_backward(operator, backend, inputs))(*arrays)
        types = [(out.shape, out.dtype) for out in both.outputs(*arrays)]
    assert [(each.shape, each.dtype) for each in found] == types
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_cotangents_are_arguments_that_xla_cannot_fold():
    """As constants of value 1 they would leave jnp without a multiplication, and not the kernel."""
    operator = Operator(name="product", reference=lambda A, B: A * B, kernels={"numba": square})
    both = both_directions(operator)
    arrays = both.sample("float32", 4096, 0)
    lowered = jax.jit(both.build(BACKENDS["jnp"], arrays)).lower(*arrays)
    assert len(lowered.in_avals[0]) == 3
    text = lowered.compile().as_text()
    assert text.count("multiply(") == 3
    assert "constant(1)" not in text


def test_a_wrong_derivative_is_wrong_though_the_value_is_right():
    operator = _numba_operator(factor=3.0)
    arrays = both_directions(operator).sample("float32", 500, 0)
    verdict = judge_kernel(both_directions(operator), operator.backends()[-1], arrays)
    assert verdict.status is Status.WRONG_VALUE
    assert "output 1" in verdict.reason


def test_a_kernel_without_a_derivative_has_no_such_case():
    add = operators()["add"]
    assert case_of_both_directions(Case(add, BACKENDS["numba"], "float32", 100, "cpu")) is None
    assert case_of_both_directions(Case(operators()["histogram"], BACKENDS["jnp"], "float32", 100, "cpu")) is None
    with pytest.raises(OperatorError, match="histogram: cannot run backward, because no input has a derivative"):
        both_directions(operators()["histogram"])


def test_such_cells_are_timed_like_any_other():
    operator = operators()["add"]
    plain = [Case(operator, backend, "float32", 4096, "cpu") for backend in (BACKENDS["jnp"], BACKENDS["warp"])]
    cases = {case.cell.key: case for case in map(case_of_both_directions, plain)}
    process = TimedProcess(cases, lambda cell: None, seed=random.randrange(100))
    for key in cases:
        process.prepare(key, checks=True)
    results = process.time(list(cases), 0.005, last=True, measures=False)
    assert [result.status for result in results] == [Status.PASSED] * 2
    assert [result.timing.method for result in results] == ["two_points"] * 2
    assert {result.bytes for result in results} == {6 * 4 * 4096}
    assert [result.cell.mode for result in results] == [MODE] * 2
    assert [*cases.values()][1].id == results[1].cell.id == "add-warp-f32-4096-cpu-forward+backward"
