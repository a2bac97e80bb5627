"""Truth is computed once for equal inputs, and again for others."""

import jax
import numpy as np

from suites import Operator, exact
from suites.checks.judging.cell_verdict import truth
from suites.ops.add import OPERATOR as ADD


def test_equal_inputs_are_computed_once_and_others_again():
    calls = []
    operator = Operator(
        name="counted", reference=lambda x: x, kernels=ADD.kernels, truth=lambda x: calls.append(x) or exact(x)
    )
    one = np.ones(3, np.float32)
    for inputs in (one, one.copy(), one.astype(np.float64), one):
        truth(operator, (inputs,))
    assert len(calls) == 2
    one[0] = 5  # the same array holds something else now
    assert truth(operator, (one,)).outputs[0].value[0] == 5
    with jax.enable_x64(True):
        truth(operator, (one,))
    assert len(calls) == 4
