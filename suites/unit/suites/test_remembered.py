"""Truth is computed once for equal inputs, and again for others."""

import jax
import numpy as np
import pytest

from suites.checks.judging.remembered import Remembered, truth
from suites.ops.add import OPERATOR as ADD


class Counter:
    def __init__(self):
        self.calls = []

    def __call__(self, operator, inputs):
        self.calls.append(inputs)
        return len(self.calls)


def test_equal_inputs_are_computed_once_and_others_again():
    compute = Counter()
    remembered = Remembered(compute, most=2)
    one, other = (np.ones(3, np.float32),), (np.ones(3, np.float64),)
    found = [remembered(ADD, inputs) for inputs in (one, (one[0].copy(),), other, one)]
    assert found == [1, 1, 2, 1]
    one[0][0] = 5  # the same array holds something else now
    assert remembered(ADD, one) == 3


def test_the_oldest_is_forgotten():
    compute = Counter()
    remembered = Remembered(compute, most=2)
    inputs = [(np.full(2, index),) for index in range(3)]
    for each in (*inputs, inputs[0]):
        remembered(ADD, each)
    assert len(compute.calls) == 4


def test_64_bits_count():
    compute = Counter()
    remembered = Remembered(compute, most=2)
    for on in (False, True, False):
        with jax.enable_x64(on):
            remembered(ADD, (np.ones(2),))
    assert len(compute.calls) == 2


def test_a_failure_is_not_remembered():
    def fails(operator, inputs):
        raise ValueError("no")

    remembered = Remembered(fails, most=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            remembered(ADD, (np.ones(2),))


def test_truth_is_the_operators():
    inputs = ADD.sample("float32", 100, 3)
    assert truth(ADD, inputs) is truth(ADD, tuple(each.copy() for each in inputs))
    np.testing.assert_array_equal(truth(ADD, inputs).outputs[0].value, ADD.truth(*inputs).outputs[0].value)
