"""Large samples of elementwise operators repeat themselves, and a result is right only if all periods are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites.cells import repeated_inputs
from suites.checks.judging.cell_verdict import judge_all
from suites.numerics.derived.vectors import is_elementwise
from suites.ops import operators

ELEMENTWISE = {name: operator for name, operator in operators().items() if operator.elementwise}
SIZE = 5 * 11**2 + 7


@pytest.fixture(autouse=True)
def small_periods(monkeypatch):
    monkeypatch.setattr(repeated_inputs, "REPEATED_ABOVE", 200)
    monkeypatch.setattr(repeated_inputs, "PERIOD", 11**2)


def _right_results(operator, inputs):
    truth = operator.truth(*inputs)
    return [expected.value.astype(expected.dtype) for expected in truth.outputs]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_right_results_pass_and_a_change_in_any_period_is_found(name):
    operator = ELEMENTWISE[name]
    inputs = repeated_inputs.sample(operator, "float32", SIZE, 3)
    shapes = [array.shape for array in operator.sample("float32", SIZE, 3)]
    assert [array.shape for array in inputs] == shapes
    results = _right_results(operator, inputs)
    assert judge_all(operator, results, inputs).status is Status.PASSED
    for place in (5, 11**2 + 5, results[0].size - 1):
        wrong = [result.copy() for result in results]
        wrong[0].flat[place] += 1
        verdict = judge_all(operator, wrong, inputs)
        assert verdict.status is Status.WRONG_VALUE
        assert str(place) in verdict.reason


def test_the_last_elements_may_be_rounded_in_another_way():
    operator = ELEMENTWISE["sigmoid"]
    inputs = repeated_inputs.sample(operator, "float32", SIZE, 3)
    (result,) = _right_results(operator, inputs)
    result[-5:] = np.nextafter(result[-5:], np.float32(1))
    assert judge_all(operator, [result], inputs).status is Status.PASSED


@pytest.mark.parametrize("reference", [lambda x: x * 3, jax.nn.gelu, lambda x: jnp.where(x > 1, x, 0), jnp.round])
def test_functions_of_each_element_are_found(reference):
    assert is_elementwise(reference, (np.ones(5, np.float32),))


@pytest.mark.parametrize(
    "reference",
    [
        *(jnp.cumsum, jnp.sum, jnp.sort, lambda x: x[::-1], lambda x: jnp.roll(x, 1), lambda x: x / x[0]),
        *(lambda x: x + jnp.arange(x.size), lambda x: x + np.arange(5), lambda x: jnp.outer(x, x), lambda x: 1 / 0),
        lambda x: jax.jit(lambda y: y + np.arange(5))(x),
    ],
)
def test_functions_that_look_at_other_elements_or_at_the_index_are_not(reference):
    assert not is_elementwise(reference, (np.ones(5, np.float32),))
