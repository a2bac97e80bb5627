"""Truth is computed once for equal inputs, and again for others."""

import jax
import numpy as np

from suites.checks.judging.cell_verdict import Remembered
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
