"""What wrong elements have in common is said in words, and nothing is said where that is chance."""

import numpy as np
import pytest

from suites.numerics.error_model import Truth, exact
from suites.numerics.patterns import pattern, places
from suites.numerics.verdict import judge

RANDOM = np.random.default_rng(0)
VECTOR, MATRIX = RANDOM.normal(size=33), RANDOM.normal(size=(6, 8))


def _changed(true, place, value):
    changed = true.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("got", "true", "words"),
    [
        (2 * VECTOR, VECTOR, "every element is 2 times the true value"),
        (-VECTOR, VECTOR, "every element has the wrong sign"),
        (0 * VECTOR + 3, VECTOR, "every element is 3.0"),
        (np.roll(VECTOR, 1), VECTOR, "every element has the value that belongs to the element 1 before it"),
        (np.flip(MATRIX, 1), MATRIX, "every element has the value that belongs to the other end along axis 1"),
        (MATRIX.T.reshape(6, 8), MATRIX, "every element from 1 on has the value that belongs to the transposed index"),
        (_changed(VECTOR, slice(16, None), 0), VECTOR, "every element from 16 on is 0.0"),
        (_changed(VECTOR, -1, 7), VECTOR, "the last element is wrong"),
    ],
)
def test_a_rule_that_all_wrong_elements_follow_is_named(got, true, words):
    assert pattern(got, true, got != true).startswith(words)


def test_small_errors_and_single_elements_follow_no_rule():
    near = VECTOR * (1 + 1e-6 * RANDOM.normal(size=VECTOR.size))
    assert pattern(near, VECTOR, near != VECTOR) is None
    assert pattern(np.array([0.0]), np.array([-0.0]), np.array([True])) is None
    assert places(RANDOM.random(99) < 0.5) is None


def test_steps_are_named():
    wrong = np.zeros(100, bool)
    wrong[15::16] = True
    assert places(wrong) == "one element in 16 from 15 on"


def test_exchanged_outputs_are_called_so():
    one, other = VECTOR, VECTOR + 1
    verdict = judge([other, one], Truth((exact(one), exact(other))))
    assert verdict.cause == "outputs 0 and 1 are exchanged"
    assert verdict.words.startswith(f"{verdict.cause}: output 0[")
